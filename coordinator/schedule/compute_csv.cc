#include "coordinator/schedule/compute_csv.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/action_text.h"

namespace stagecoach {

std::string ComputeCsv(const v1::ComputeTable& table) {
  std::string csv;
  for (const v1::WorkerActions& worker : table.workers()) {
    const auto append_cell = [](std::string* row, const v1::Action& action) { row->append(ActionText(action)); };
    absl::StrAppend(&csv, absl::StrJoin(worker.actions(), ",", append_cell), "\n");
  }
  return csv;
}

}  // namespace stagecoach
