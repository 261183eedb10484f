#ifndef STAGECOACH_COORDINATOR_SCHEDULE_COMPUTE_CSV_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_COMPUTE_CSV_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// PyTorch's compute-only format: a row for each worker, cells like 2F0 and 2B0 in execution order, no header, no cells
// for idle time.
std::string ComputeCsv(const v1::ComputeTable& table);

// Reads it back, and all that PyTorch writes (action_sheet.h); `schedule` becomes the table's name. INVALID_ARGUMENT
// names line, column and cell of what makes it no table (sheet_checks.h).
absl::StatusOr<v1::ComputeTable> ParseComputeCsv(absl::string_view text, absl::string_view schedule);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_COMPUTE_CSV_H_
