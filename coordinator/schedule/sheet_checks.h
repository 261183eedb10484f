#ifndef STAGECOACH_COORDINATOR_SCHEDULE_SHEET_CHECKS_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_SHEET_CHECKS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/schedule/action_sheet.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

enum class SheetLevel { kCompute, kLowered };

// kLowered when there is an action that is not F, B, I, W or R.
SheetLevel LevelOf(const ActionSheet& sheet);

// What a sheet's compute actions say.
struct SheetShape {
  uint32_t num_stages = 0;         // highest stage + 1
  uint32_t num_micro_batches = 0;  // highest micro-batch + 1
  bool forward_only = false;
  std::vector<bool> recomputes = {};  // [num_stages] there is an R
};

// Shows of the compute actions of a sheet, at either level: every stage up to the highest is on one worker; it runs F
// of every micro-batch up to the highest exactly once and, unless the sheet has forwards alone, B or both I and W
// exactly once, each after what it needs of its own stage; a stage that has an R has one of every micro-batch, between
// its F and its I or B. INVALID_ARGUMENT names line, column and cell, or what is missing and from which line. Whether
// the workers together come to an end is not shown: see the verifier.
absl::StatusOr<SheetShape> CheckComputeActions(const ActionSheet& sheet);

// The table of a compute-only sheet, checked; `schedule` is its name for people. INVALID_ARGUMENT also when the sheet
// is lowered.
absl::StatusOr<v1::ComputeTable> TableOfSheet(const ActionSheet& sheet, absl::string_view schedule);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_SHEET_CHECKS_H_
