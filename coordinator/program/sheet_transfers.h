#ifndef STAGECOACH_COORDINATOR_PROGRAM_SHEET_TRANSFERS_H_
#define STAGECOACH_COORDINATOR_PROGRAM_SHEET_TRANSFERS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/schedule/action_sheet.h"
#include "coordinator/schedule/sheet_checks.h"

namespace stagecoach {

// Which row of a sheet has a stage. [num_stages] Of a sheet that CheckComputeActions accepts.
std::vector<uint32_t> RowsOfStages(const ActionSheet& sheet, const SheetShape& shape);

// Shows of a lowered sheet that every tensor that crosses workers has one SEND, after the F, I or B that makes it, and
// one RECV, before the one that reads it, and that nothing else is sent. INVALID_ARGUMENT names line, column and cell.
absl::Status CheckTransfers(const ActionSheet& sheet, const SheetShape& shape);

// Shows that no stage runs between its RESHARD and its next UNSHARD, nor before its first UNSHARD when it has one, and
// that REDUCE_GRAD comes once and after the last W.
absl::Status CheckSharding(const ActionSheet& sheet, const SheetShape& shape);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_SHEET_TRANSFERS_H_
