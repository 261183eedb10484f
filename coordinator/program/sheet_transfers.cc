#include "coordinator/program/sheet_transfers.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/action_text.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

template <typename... Parts>
absl::Status RefuseCell(const SheetCell& cell, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(PlaceText(cell), ": ", parts...));
}

std::string TextOf(v1::ActionKind kind, uint32_t stage, uint32_t micro_batch) {
  v1::Action action;
  action.set_kind(kind);
  action.set_stage(stage);
  action.set_micro_batch(micro_batch);
  return ActionText(action);
}

class TransferCheck {
 public:
  TransferCheck(const ActionSheet& sheet, const SheetShape& shape)
      : sheet_(sheet), shape_(shape), row_of_stage_(RowsOfStages(sheet, shape)) {
    for (auto& cells : cells_of_) cells.assign(size_t{shape.num_stages} * shape.num_micro_batches, nullptr);
  }

  absl::Status Run() {
    for (const std::vector<SheetCell>& row : sheet_.rows) {
      for (const SheetCell& cell : row) {
        if (cell.sharding == ShardingKind::kNone) STAGECOACH_RETURN_IF_ERROR(Add(cell));
      }
    }
    for (uint32_t lower = 0; lower + 1 < shape_.num_stages; ++lower) {
      if (row_of_stage_[lower] == row_of_stage_[lower + 1]) continue;
      for (uint32_t micro_batch = 0; micro_batch < shape_.num_micro_batches; ++micro_batch) {
        STAGECOACH_RETURN_IF_ERROR(Needs(v1::ACTION_KIND_SEND_FORWARD, lower, micro_batch));
        STAGECOACH_RETURN_IF_ERROR(Needs(v1::ACTION_KIND_RECV_FORWARD, lower + 1, micro_batch));
        if (shape_.forward_only) continue;
        STAGECOACH_RETURN_IF_ERROR(Needs(v1::ACTION_KIND_SEND_BACKWARD, lower + 1, micro_batch));
        STAGECOACH_RETURN_IF_ERROR(Needs(v1::ACTION_KIND_RECV_BACKWARD, lower, micro_batch));
      }
    }
    return absl::OkStatus();
  }

 private:
  // The first cell so far of an action: F, then I or B, then the four transfers.
  const SheetCell*& CellOf(v1::ActionKind kind, uint32_t stage, uint32_t micro_batch) {
    size_t index = 0;
    if (kind == v1::ACTION_KIND_BACKWARD || kind == v1::ACTION_KIND_BACKWARD_INPUT) index = 1;
    if (kind >= v1::ACTION_KIND_SEND_FORWARD) index = 2 + static_cast<size_t>(kind - v1::ACTION_KIND_SEND_FORWARD);
    return cells_of_[index][size_t{stage} * shape_.num_micro_batches + micro_batch];
  }

  absl::Status Add(const SheetCell& cell) {
    const v1::Action& action = cell.action;
    const bool is_post =
        action.kind() >= v1::ACTION_KIND_SEND_FORWARD && action.kind() <= v1::ACTION_KIND_RECV_BACKWARD;
    if (action.micro_batch() >= shape_.num_micro_batches) {
      return RefuseCell(cell, "the sheet has micro-batches 0 to ", shape_.num_micro_batches - 1);
    }
    if (is_post) return AddPost(cell);
    if (action.kind() > v1::ACTION_KIND_RECOMPUTE) return RefuseCell(cell, "a lowered sheet has no such action");
    // Neither sends nor receives.
    if (action.kind() == v1::ACTION_KIND_BACKWARD_WEIGHT || action.kind() == v1::ACTION_KIND_RECOMPUTE) {
      return absl::OkStatus();
    }
    CellOf(action.kind(), action.stage(), action.micro_batch()) = &cell;
    return CheckReceived(cell);
  }

  absl::Status AddPost(const SheetCell& cell) {
    const v1::Action& action = cell.action;
    const bool is_send =
        action.kind() == v1::ACTION_KIND_SEND_FORWARD || action.kind() == v1::ACTION_KIND_SEND_BACKWARD;
    // Whether the other end is the stage above: activations are sent up the numbers and received from below.
    const bool is_forward =
        action.kind() == v1::ACTION_KIND_SEND_FORWARD || action.kind() == v1::ACTION_KIND_RECV_FORWARD;
    const bool other_is_above = is_send == is_forward;
    const uint32_t stage = action.stage();
    if (other_is_above ? stage + 1 == shape_.num_stages : stage == 0) {
      return RefuseCell(cell, "stage ", stage, " has no neighbour there");
    }
    const uint32_t other = other_is_above ? stage + 1 : stage - 1;
    if (row_of_stage_[stage] == row_of_stage_[other]) {
      return RefuseCell(cell, "stages ", stage, " and ", other, " are on one worker, where nothing is sent");
    }
    const SheetCell*& first = CellOf(action.kind(), stage, action.micro_batch());
    if (first != nullptr) return RefuseCell(cell, "is there a second time; the first is ", PlaceText(*first));
    first = &cell;
    const v1::ActionKind compute = is_forward ? v1::ACTION_KIND_FORWARD : v1::ACTION_KIND_BACKWARD_INPUT;
    const SheetCell* done = CellOf(compute, stage, action.micro_batch());
    if (is_send && done == nullptr) {
      return RefuseCell(cell, "comes before the ", is_forward ? "F" : "B or I", " that makes what it sends");
    }
    if (!is_send && done != nullptr) return RefuseCell(cell, "comes after ", PlaceText(*done), ", which needs it");
    return absl::OkStatus();
  }

  // What a compute action reads from another worker has been received.
  absl::Status CheckReceived(const SheetCell& cell) {
    const v1::Action& action = cell.action;
    const bool is_forward = action.kind() == v1::ACTION_KIND_FORWARD;
    if (is_forward ? action.stage() == 0 : action.stage() + 1 == shape_.num_stages) return absl::OkStatus();
    const uint32_t from = is_forward ? action.stage() - 1 : action.stage() + 1;
    if (row_of_stage_[from] == row_of_stage_[action.stage()]) return absl::OkStatus();
    const v1::ActionKind recv = is_forward ? v1::ACTION_KIND_RECV_FORWARD : v1::ACTION_KIND_RECV_BACKWARD;
    if (CellOf(recv, action.stage(), action.micro_batch()) != nullptr) return absl::OkStatus();
    return RefuseCell(cell, "there is no ", TextOf(recv, action.stage(), action.micro_batch()), " before it");
  }

  absl::Status Needs(v1::ActionKind kind, uint32_t stage, uint32_t micro_batch) {
    if (CellOf(kind, stage, micro_batch) != nullptr) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("line ", sheet_.rows[row_of_stage_[stage]].front().place.line, ": ",
                                                   TextOf(kind, stage, micro_batch), " is missing"));
  }

  const ActionSheet& sheet_;
  const SheetShape& shape_;
  const std::vector<uint32_t> row_of_stage_;
  std::vector<const SheetCell*> cells_of_[6];
};

}  // namespace

std::vector<uint32_t> RowsOfStages(const ActionSheet& sheet, const SheetShape& shape) {
  std::vector<uint32_t> rows(shape.num_stages);
  for (uint32_t row = 0; row < sheet.rows.size(); ++row) {
    for (const SheetCell& cell : sheet.rows[row]) rows[cell.action.stage()] = row;
  }
  return rows;
}

absl::Status CheckTransfers(const ActionSheet& sheet, const SheetShape& shape) {
  return TransferCheck(sheet, shape).Run();
}

absl::Status CheckSharding(const ActionSheet& sheet, const SheetShape& shape) {
  struct StageState {
    const SheetCell* resharded = nullptr;  // what has made its parameters absent
    const SheetCell* reduced = nullptr;
  };
  std::vector<StageState> states(shape.num_stages);
  // A stage whose first sharding cell is UNSHARD starts without its parameters.
  for (const std::vector<SheetCell>& row : sheet.rows) {
    std::vector<bool> seen(shape.num_stages);
    for (const SheetCell& cell : row) {
      if (cell.sharding != ShardingKind::kUnshard && cell.sharding != ShardingKind::kReshard) continue;
      StageState& state = states[cell.action.stage()];
      if (!seen[cell.action.stage()] && cell.sharding == ShardingKind::kUnshard) state.resharded = &cell;
      seen[cell.action.stage()] = true;
    }
    for (const SheetCell& cell : row) {
      StageState& state = states[cell.action.stage()];
      const bool computes = cell.sharding == ShardingKind::kNone && cell.action.kind() < v1::ACTION_KIND_SEND_FORWARD;
      if (cell.sharding == ShardingKind::kUnshard) state.resharded = nullptr;
      if (cell.sharding == ShardingKind::kReshard) state.resharded = &cell;
      if (computes && state.resharded != nullptr) {
        return RefuseCell(cell, "the parameters of stage ", cell.action.stage(), " are not there: see ",
                          PlaceText(*state.resharded));
      }
      if (computes && state.reduced != nullptr && cell.action.kind() != v1::ACTION_KIND_FORWARD) {
        return RefuseCell(cell, "comes after ", PlaceText(*state.reduced));
      }
      if (cell.sharding != ShardingKind::kReduceGradient) continue;
      if (state.reduced != nullptr) return RefuseCell(cell, "is there a second time");
      state.reduced = &cell;
    }
  }
  return absl::OkStatus();
}

}  // namespace stagecoach
