#ifndef STAGECOACH_COORDINATOR_SCHEDULE_ACTION_SHEET_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_ACTION_SHEET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// Where an action stands in a file. All from 1; the column counts bytes.
struct CellPlace {
  uint32_t line = 0;
  uint32_t column = 0;
  uint32_t cell = 0;  // in its line
};

// What PyTorch's lowered format has about sharded parameters and gradients, and Stagecoach's programs have not.
enum class ShardingKind { kNone, kUnshard, kReshard, kReduceGradient };

struct SheetCell {
  v1::Action action;  // with a sharding cell: the stage alone
  ShardingKind sharding = ShardingKind::kNone;
  CellPlace place;
};
std::string CellText(const SheetCell& cell);   // "2F0", "2UNSHARD"
std::string PlaceText(const SheetCell& cell);  // "line 2, column 9 (cell 3, 1F1)"

// Actions as a file lists them: a row for each worker, in execution order. Nothing is known of it but that every cell
// is an action.
struct ActionSheet {
  std::vector<std::vector<SheetCell>> rows;  // [num_workers]
};

// PyTorch's files, compute-only and lowered: rows of cells between commas, one row a worker, no header. Cells like 2F0,
// 1SEND_F3, 0REDUCE_GRAD; empty ones are skipped, as are spaces around a cell; (0F4;7B0)OVERLAP_F_B is its actions one
// after another. Lines may end with \r\n; empty lines at the end are no workers. INVALID_ARGUMENT names line, column
// and cell of what is no action, or what of the sheet is too large (compute_table.h).
absl::StatusOr<ActionSheet> ReadActionCsv(absl::string_view text);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_ACTION_SHEET_H_
