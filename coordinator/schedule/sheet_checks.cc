#include "coordinator/schedule/sheet_checks.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/action_text.h"
#include "common/status_macros.h"
#include "coordinator/schedule/compute_table.h"

namespace stagecoach {
namespace {

bool IsCompute(const SheetCell& cell) {
  return cell.sharding == ShardingKind::kNone && cell.action.kind() >= v1::ACTION_KIND_FORWARD &&
         cell.action.kind() <= v1::ACTION_KIND_RECOMPUTE;
}

template <typename... Parts>
absl::Status RefuseCell(const SheetCell& cell, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(PlaceText(cell), ": ", parts...));
}

class ComputeCheck {
 public:
  explicit ComputeCheck(const ActionSheet& sheet) : sheet_(sheet) {}

  absl::StatusOr<SheetShape> Run() {
    STAGECOACH_RETURN_IF_ERROR(FindShape());
    STAGECOACH_RETURN_IF_ERROR(FindWorkers());
    for (std::vector<const SheetCell*>& cells : first_of_kind_) {
      cells.assign(size_t{shape_.num_stages} * shape_.num_micro_batches, nullptr);
    }
    for (const std::vector<SheetCell>& row : sheet_.rows) {
      for (const SheetCell& cell : row) {
        if (IsCompute(cell)) STAGECOACH_RETURN_IF_ERROR(Add(cell));
      }
    }
    STAGECOACH_RETURN_IF_ERROR(CheckNothingMissing());
    return shape_;
  }

 private:
  absl::Status FindShape() {
    shape_.forward_only = true;
    for (const std::vector<SheetCell>& row : sheet_.rows) {
      for (const SheetCell& cell : row) {
        if (cell.action.stage() >= kMaxStages) {
          return RefuseCell(cell, "stages are numbered 0 to ", kMaxStages - 1);
        }
        if (cell.action.micro_batch() >= kMaxMicroBatches) {
          return RefuseCell(cell, "micro-batches are numbered 0 to ", kMaxMicroBatches - 1);
        }
        if (!IsCompute(cell)) continue;
        shape_.num_stages = std::max(shape_.num_stages, cell.action.stage() + 1);
        shape_.num_micro_batches = std::max(shape_.num_micro_batches, cell.action.micro_batch() + 1);
        shape_.forward_only &= cell.action.kind() == v1::ACTION_KIND_FORWARD;
      }
    }
    if (uint64_t{shape_.num_stages} * shape_.num_micro_batches > kMaxForwards) {
      return absl::InvalidArgumentError(absl::StrCat(shape_.num_stages, " stages x ", shape_.num_micro_batches,
                                                     " micro-batches is more than ", kMaxForwards));
    }
    if (shape_.num_stages == 0) return absl::InvalidArgumentError("there is no F, B, I or W");
    shape_.recomputes.assign(shape_.num_stages, false);
    return absl::OkStatus();
  }

  absl::Status FindWorkers() {
    first_of_stage_.assign(shape_.num_stages, nullptr);
    row_of_stage_.assign(shape_.num_stages, 0);
    for (size_t row = 0; row < sheet_.rows.size(); ++row) {
      for (const SheetCell& cell : sheet_.rows[row]) {
        const uint32_t stage = cell.action.stage();
        if (stage >= shape_.num_stages) return RefuseCell(cell, "stage ", stage, " has no F");
        if (first_of_stage_[stage] == nullptr) {
          first_of_stage_[stage] = &cell;
          row_of_stage_[stage] = row;
        }
        if (row_of_stage_[stage] != row) {
          return RefuseCell(cell, "stage ", stage, " is on two workers; the other is that of ",
                            PlaceText(*first_of_stage_[stage]));
        }
      }
      if (sheet_.rows[row].empty()) {
        return absl::InvalidArgumentError(absl::StrCat("worker ", row, " (row ", row + 1, ") has no actions"));
      }
    }
    const auto none = std::find(first_of_stage_.begin(), first_of_stage_.end(), nullptr);
    if (none == first_of_stage_.end()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("stage ", none - first_of_stage_.begin(),
                                                   " is missing; there are stages up to ", shape_.num_stages - 1));
  }

  const SheetCell*& FirstOf(v1::ActionKind kind, const v1::Action& action) {
    return first_of_kind_[kind - v1::ACTION_KIND_FORWARD]
                         [size_t{action.stage()} * shape_.num_micro_batches + action.micro_batch()];
  }

  absl::Status Add(const SheetCell& cell) {
    const SheetCell*& first = FirstOf(cell.action.kind(), cell.action);
    if (first != nullptr) return RefuseCell(cell, "is there a second time; the first is ", PlaceText(*first));
    first = &cell;
    const auto needs = [&](v1::ActionKind kind) {
      if (FirstOf(kind, cell.action) != nullptr) return absl::OkStatus();
      v1::Action needed = cell.action;
      needed.set_kind(kind);
      return RefuseCell(cell, "comes before the ", ActionText(needed), " that it needs, or that is missing");
    };
    if (cell.action.kind() == v1::ACTION_KIND_FORWARD) return absl::OkStatus();
    STAGECOACH_RETURN_IF_ERROR(needs(v1::ACTION_KIND_FORWARD));
    if (cell.action.kind() == v1::ACTION_KIND_RECOMPUTE) return AddRecomputation(cell);
    if (const SheetCell* whole = FirstOf(v1::ACTION_KIND_BACKWARD, cell.action); whole != nullptr && whole != &cell) {
      return RefuseCell(cell, "the whole backward of its micro-batch is ", PlaceText(*whole),
                        "; B is I and W together. In older files B stands for I, and BW for B: write those");
    }
    if (cell.action.kind() == v1::ACTION_KIND_BACKWARD && FirstOf(v1::ACTION_KIND_BACKWARD_INPUT, cell.action)) {
      return RefuseCell(cell, "there is also ", PlaceText(*FirstOf(v1::ACTION_KIND_BACKWARD_INPUT, cell.action)),
                        "; B is I and W together");
    }
    if (cell.action.kind() != v1::ACTION_KIND_BACKWARD_WEIGHT) return absl::OkStatus();
    return needs(v1::ACTION_KIND_BACKWARD_INPUT);
  }

  absl::Status AddRecomputation(const SheetCell& cell) {
    shape_.recomputes[cell.action.stage()] = true;
    for (const v1::ActionKind backward : {v1::ACTION_KIND_BACKWARD, v1::ACTION_KIND_BACKWARD_INPUT}) {
      const SheetCell* reader = FirstOf(backward, cell.action);
      if (reader != nullptr) return RefuseCell(cell, "comes after ", PlaceText(*reader), ", which needs it");
    }
    return absl::OkStatus();
  }

  absl::Status CheckNothingMissing() {
    for (uint32_t stage = 0; stage < shape_.num_stages; ++stage) {
      for (uint32_t micro_batch = 0; micro_batch < shape_.num_micro_batches; ++micro_batch) {
        v1::Action action;
        action.set_stage(stage);
        action.set_micro_batch(micro_batch);
        const auto has = [&](v1::ActionKind kind) { return FirstOf(kind, action) != nullptr; };
        if (!has(v1::ACTION_KIND_FORWARD)) return Missing("F", stage, micro_batch);
        if (shape_.recomputes[stage] && !has(v1::ACTION_KIND_RECOMPUTE)) return Missing("R", stage, micro_batch);
        if (shape_.forward_only || has(v1::ACTION_KIND_BACKWARD)) continue;
        if (!has(v1::ACTION_KIND_BACKWARD_INPUT)) return Missing("B", stage, micro_batch);
        if (!has(v1::ACTION_KIND_BACKWARD_WEIGHT)) return Missing("W", stage, micro_batch);
      }
    }
    return absl::OkStatus();
  }

  absl::Status Missing(absl::string_view kind, uint32_t stage, uint32_t micro_batch) const {
    return absl::InvalidArgumentError(absl::StrCat("line ", first_of_stage_[stage]->place.line, ": ", stage, kind,
                                                   micro_batch, " is missing; the sheet has micro-batches 0 to ",
                                                   shape_.num_micro_batches - 1));
  }

  const ActionSheet& sheet_;
  SheetShape shape_;
  std::vector<const SheetCell*> first_of_stage_;
  std::vector<size_t> row_of_stage_;
  std::vector<const SheetCell*> first_of_kind_[5];  // F, B, I, W, R; by stage and micro-batch
};

}  // namespace

SheetLevel LevelOf(const ActionSheet& sheet) {
  for (const std::vector<SheetCell>& row : sheet.rows) {
    if (!std::all_of(row.begin(), row.end(), IsCompute)) return SheetLevel::kLowered;
  }
  return SheetLevel::kCompute;
}

absl::StatusOr<SheetShape> CheckComputeActions(const ActionSheet& sheet) { return ComputeCheck(sheet).Run(); }

absl::StatusOr<v1::ComputeTable> TableOfSheet(const ActionSheet& sheet, absl::string_view schedule) {
  for (const std::vector<SheetCell>& row : sheet.rows) {
    const auto other = std::find_if_not(row.begin(), row.end(), IsCompute);
    if (other != row.end()) return RefuseCell(*other, "a compute-only table has F, B, I, W and R alone");
  }
  STAGECOACH_ASSIGN_OR_RETURN(const SheetShape shape, CheckComputeActions(sheet));
  v1::ComputeTable table;
  table.set_schedule(std::string(schedule));
  table.set_num_stages(shape.num_stages);
  table.set_num_micro_batches(shape.num_micro_batches);
  for (const std::vector<SheetCell>& row : sheet.rows) {
    v1::WorkerActions& worker = *table.add_workers();
    for (const SheetCell& cell : row) *worker.add_actions() = cell.action;
  }
  return table;
}

}  // namespace stagecoach
