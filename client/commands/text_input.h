#ifndef STAGECOACH_CLIENT_COMMANDS_TEXT_INPUT_H_
#define STAGECOACH_CLIENT_COMMANDS_TEXT_INPUT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace stagecoach {

// The whole of a file, or of standard input for "-". Of standard input no more than a little over `max_bytes` is read;
// a larger file is an error. Codes are those of ReadFile (common/file_system.h).
absl::StatusOr<std::string> ReadTextInput(const std::string& file, uint64_t max_bytes);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_TEXT_INPUT_H_
