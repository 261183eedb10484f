#include "coordinator/schedule/compute_csv.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/action_text.h"
#include "common/status_macros.h"
#include "coordinator/schedule/action_sheet.h"
#include "coordinator/schedule/sheet_checks.h"

namespace stagecoach {

std::string ComputeCsv(const v1::ComputeTable& table) {
  std::string csv;
  for (const v1::WorkerActions& worker : table.workers()) {
    const auto append_cell = [](std::string* row, const v1::Action& action) { row->append(ActionText(action)); };
    absl::StrAppend(&csv, absl::StrJoin(worker.actions(), ",", append_cell), "\n");
  }
  return csv;
}

absl::StatusOr<v1::ComputeTable> ParseComputeCsv(absl::string_view text, absl::string_view schedule) {
  STAGECOACH_ASSIGN_OR_RETURN(const ActionSheet sheet, ReadActionCsv(text));
  return TableOfSheet(sheet, schedule);
}

}  // namespace stagecoach
