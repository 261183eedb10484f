#include "client/contexts/settings.h"

#include <cstdlib>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/contexts/context_file.h"
#include "common/listen_address.h"
#include "common/quoted.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

// A folder of the user's, by the XDG rules: relative values of the variable do not count.
absl::StatusOr<Setting> UserFolder(const Environment& environment, const char* variable, absl::string_view in_home) {
  const std::optional<std::string> given = environment(variable);
  if (given && absl::StartsWith(*given, "/")) return Setting{*given, variable};
  const std::optional<std::string> home = environment("HOME");
  if (!home) return absl::FailedPreconditionError(absl::StrCat("neither ", variable, " nor HOME is set"));
  return Setting{absl::StrCat(*home, "/", in_home), kBuiltIn};
}

absl::Status CheckAddress(const Setting& address) {
  const absl::StatusOr<ListenAddress> parsed = ParseListenAddress(address.value);
  absl::Status status = parsed.status();
  if (status.ok() && !parsed->is_unix() && parsed->port == 0) {
    status = absl::InvalidArgumentError(absl::StrCat("the address ", Quoted(address.value), " has port 0"));
  }
  return WithContext(status, address.origin);
}

// Leaving the user to think that a connection is protected would be worse than an error.
absl::Status CheckNothingIsIgnored(const Environment& environment) {
  for (const char* variable : {"STAGECOACH_CA", "STAGECOACH_TOKEN_FILE"}) {
    if (environment(variable)) {
      return absl::InvalidArgumentError(
          absl::StrCat(variable, " is set, but certificates and tokens are not supported yet; unset it"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Context> FindContext(const ContextFile& file, const Setting& name, const Setting& path,
                                    const Environment& environment) {
  if (const Context* context = file.Find(name.value)) return *context;
  if (name.value == kLocalContext) {
    STAGECOACH_ASSIGN_OR_RETURN(const std::string state_dir, DefaultStateDir(environment));
    return Context{.name = kLocalContext, .address = LocalAddress(state_dir), .state_dir = state_dir};
  }
  std::vector<std::string> names = {kLocalContext};
  for (const Context& context : file.contexts) names.push_back(context.name);
  return absl::NotFoundError(absl::StrCat("no context ", Quoted(name.value), " (", name.origin, ") in ", path.value,
                                          "; there is ", absl::StrJoin(names, ", ")));
}

}  // namespace

Environment ProcessEnvironment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  };
}

absl::StatusOr<Setting> ConfigPath(const Environment& environment) {
  if (const std::optional<std::string> path = environment("STAGECOACH_CONFIG")) {
    return Setting{*path, "STAGECOACH_CONFIG"};
  }
  STAGECOACH_ASSIGN_OR_RETURN(Setting folder, UserFolder(environment, "XDG_CONFIG_HOME", ".config"));
  return Setting{folder.value + "/stagecoach/config.yaml", folder.origin};
}

absl::StatusOr<std::string> DefaultStateDir(const Environment& environment) {
  STAGECOACH_ASSIGN_OR_RETURN(const Setting folder, UserFolder(environment, "XDG_STATE_HOME", ".local/state"));
  return absl::StrCat(folder.value, "/stagecoach/local");
}

std::string LocalAddress(const std::string& state_dir) { return absl::StrCat("unix:", state_dir, "/coordinator.sock"); }

absl::StatusOr<Settings> ResolveSettings(const SettingFlags& flags, const Environment& environment) {
  STAGECOACH_RETURN_IF_ERROR(CheckNothingIsIgnored(environment));
  Settings settings;
  STAGECOACH_ASSIGN_OR_RETURN(settings.config, ConfigPath(environment));
  if (!flags.address.empty()) {
    settings.address = {flags.address, "--address"};
  } else if (flags.context.empty()) {
    if (const auto address = environment("STAGECOACH_ADDRESS")) settings.address = {*address, "STAGECOACH_ADDRESS"};
  }
  if (!settings.address.value.empty()) {
    STAGECOACH_RETURN_IF_ERROR(CheckAddress(settings.address));
    return settings;
  }

  STAGECOACH_ASSIGN_OR_RETURN(const ContextFile file, LoadContexts(settings.config.value));
  if (!flags.context.empty()) {
    settings.context = {flags.context, "--context"};
  } else if (const auto name = environment("STAGECOACH_CONTEXT")) {
    settings.context = {*name, "STAGECOACH_CONTEXT"};
  } else if (!file.current.empty()) {
    settings.context = {file.current, settings.config.value};
  } else {
    settings.context = {kLocalContext, kBuiltIn};
  }
  STAGECOACH_ASSIGN_OR_RETURN(const Context context, FindContext(file, settings.context, settings.config, environment));
  const std::string origin = file.Find(context.name) != nullptr ? settings.config.value : kBuiltIn;
  settings.address = {context.address, origin};
  if (!context.state_dir.empty()) settings.state_dir = {context.state_dir, origin};
  STAGECOACH_RETURN_IF_ERROR(CheckAddress(settings.address));
  return settings;
}

}  // namespace stagecoach
