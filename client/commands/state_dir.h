#ifndef STAGECOACH_CLIENT_COMMANDS_STATE_DIR_H_
#define STAGECOACH_CLIENT_COMMANDS_STATE_DIR_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stagecoach {

// Of the local cluster that `up` and `down` mean: the one given, made absolute, or the default.
absl::StatusOr<std::string> ChooseStateDir(const std::string& given);

// Names the cluster in the context file and makes that context the current one. Returns its name: "local" in the
// default directory, else made from the directory's.
absl::StatusOr<std::string> UseLocalContext(const std::string& state_dir, const std::string& address);
// Forgets the contexts of that cluster.
absl::Status ForgetLocalContext(const std::string& state_dir);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_STATE_DIR_H_
