#ifndef STAGECOACH_CLIENT_COMMANDS_ORDER_FILE_H_
#define STAGECOACH_CLIENT_COMMANDS_ORDER_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// The CSV that parallelism.schedule of a job names: compute-only, of PyTorch's kind, an order that trains. Codes are
// those of reading the file, and INVALID_ARGUMENT; messages begin with the path, and name line, column and cell.
absl::StatusOr<v1::ComputeTable> ReadOrderFile(const std::string& path);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_ORDER_FILE_H_
