#ifndef STAGECOACH_CLIENT_CONTEXTS_SETTINGS_H_
#define STAGECOACH_CLIENT_CONTEXTS_SETTINGS_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace stagecoach {

// A value and where it came from: "--address", "STAGECOACH_ADDRESS", the context file's path, or "built-in".
struct Setting {
  std::string value;
  std::string origin;
};

// Which coordinator a command means.
struct Settings {
  Setting config;   // the context file
  Setting context;  // its name; empty when the address was given instead
  Setting address;
  Setting state_dir;  // of the local cluster; empty: the context is not one
};

struct SettingFlags {
  std::string context;  // empty: not given
  std::string address;
};
using Environment = std::function<std::optional<std::string>(const char* name)>;  // an empty variable is one not set
Environment ProcessEnvironment();

// --address, --context, STAGECOACH_ADDRESS, STAGECOACH_CONTEXT, the file's current context, and at last the built-in
// context "local": the cluster that `stagecoach up` runs in its default state directory. INVALID_ARGUMENT: the address
// is none, the file is wrong, or STAGECOACH_CA or STAGECOACH_TOKEN_FILE is set, which are not supported yet. NOT_FOUND:
// no such context.
absl::StatusOr<Settings> ResolveSettings(const SettingFlags& flags, const Environment& environment);

// STAGECOACH_CONFIG, or stagecoach/config.yaml in XDG_CONFIG_HOME or ~/.config. FAILED_PRECONDITION: no home directory.
absl::StatusOr<Setting> ConfigPath(const Environment& environment);
// stagecoach/local in XDG_STATE_HOME or ~/.local/state. FAILED_PRECONDITION: no home directory.
absl::StatusOr<std::string> DefaultStateDir(const Environment& environment);
// Where a local cluster's coordinator listens when the path is not too long for a Unix socket.
std::string LocalAddress(const std::string& state_dir);

inline constexpr char kLocalContext[] = "local";
inline constexpr char kBuiltIn[] = "built-in";

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_CONTEXTS_SETTINGS_H_
