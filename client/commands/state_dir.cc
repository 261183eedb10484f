#include "client/commands/state_dir.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/contexts/context_file.h"
#include "client/contexts/settings.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

std::string NameAfter(const std::string& state_dir) {
  std::string name = std::filesystem::path(state_dir).filename();
  std::replace_if(
      name.begin(), name.end(),
      [](char c) { return !absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_' && c != '.'; },
      '-');
  return name.empty() ? kLocalContext : name;
}

// One that no other cluster has.
std::string FreeName(const ContextFile& file, const std::string& wanted, const std::string& state_dir) {
  std::string name = wanted;
  for (int number = 2;; ++number) {
    const Context* taken = file.Find(name);
    if (taken == nullptr || taken->state_dir == state_dir) return name;
    name = absl::StrCat(wanted, "-", number);
  }
}

}  // namespace

absl::StatusOr<std::string> ChooseStateDir(const std::string& given) {
  if (given.empty()) return DefaultStateDir(ProcessEnvironment());
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(given, error);
  if (error) return absl::InvalidArgumentError(absl::StrCat("--state-dir ", given, ": ", error.message()));
  path = path.lexically_normal();
  return path.has_filename() ? path.string() : path.parent_path().string();  // without a slash at its end
}

absl::StatusOr<std::string> UseLocalContext(const std::string& state_dir, const std::string& address) {
  const Environment environment = ProcessEnvironment();
  STAGECOACH_ASSIGN_OR_RETURN(const Setting path, ConfigPath(environment));
  const absl::StatusOr<std::string> standard = DefaultStateDir(environment);
  const bool is_default = standard.ok() && *standard == state_dir;
  std::string name;
  const absl::Status status = UpdateContexts(path.value, [&](ContextFile& file) {
    name = FreeName(file, is_default ? kLocalContext : NameAfter(state_dir), state_dir);
    file.Put({.name = name, .address = address, .state_dir = state_dir});
    file.current = name;
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return name;
}

absl::Status ForgetLocalContext(const std::string& state_dir) {
  STAGECOACH_ASSIGN_OR_RETURN(const Setting path, ConfigPath(ProcessEnvironment()));
  return UpdateContexts(path.value, [&](ContextFile& file) {
    const std::vector<Context> all = file.contexts;
    for (const Context& context : all) {
      if (context.state_dir == state_dir) file.Remove(context.name);
    }
    return absl::OkStatus();
  });
}

}  // namespace stagecoach
