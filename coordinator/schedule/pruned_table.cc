#include "coordinator/schedule/pruned_table.h"

#include <cstdint>
#include <optional>

namespace stagecoach {
namespace {

// Nothing: the stage has no such action.
std::optional<v1::ActionKind> KindLeft(v1::ActionKind kind, const StageBackward& backward) {
  switch (kind) {
    case v1::ACTION_KIND_BACKWARD:
      if (backward.weight) return kind;
      return backward.input ? std::optional(v1::ACTION_KIND_BACKWARD_INPUT) : std::nullopt;
    case v1::ACTION_KIND_BACKWARD_INPUT:
    case v1::ACTION_KIND_RECOMPUTE:
      return backward.input ? std::optional(kind) : std::nullopt;
    case v1::ACTION_KIND_BACKWARD_WEIGHT:
      return backward.weight ? std::optional(kind) : std::nullopt;
    default:
      return kind;
  }
}

}  // namespace

v1::ComputeTable WithoutFrozen(const v1::ComputeTable& table, const std::vector<StageBackward>& backward) {
  v1::ComputeTable pruned = table;
  for (v1::WorkerActions& row : *pruned.mutable_workers()) {
    v1::WorkerActions before;
    row.Swap(&before);
    for (const v1::Action& action : before.actions()) {
      const std::optional<v1::ActionKind> kind = KindLeft(action.kind(), backward[action.stage()]);
      if (!kind.has_value()) continue;
      v1::Action& left = *row.add_actions();
      left = action;
      left.set_kind(*kind);
    }
  }
  return pruned;
}

std::vector<StageBackward> BackwardOfTable(const v1::ComputeTable& table) {
  std::vector<StageBackward> backward(table.num_stages(), {.input = false, .weight = false, .sends_gradient = false});
  for (const v1::WorkerActions& row : table.workers()) {
    for (const v1::Action& action : row.actions()) {
      const v1::ActionKind kind = action.kind();
      const bool is_whole = kind == v1::ACTION_KIND_BACKWARD;
      if (is_whole || kind == v1::ACTION_KIND_BACKWARD_INPUT) backward[action.stage()].input = true;
      if (is_whole || kind == v1::ACTION_KIND_BACKWARD_WEIGHT) backward[action.stage()].weight = true;
    }
  }
  for (uint32_t stage = 1; stage < table.num_stages(); ++stage) {
    backward[stage].sends_gradient = backward[stage - 1].input;
  }
  return backward;
}

}  // namespace stagecoach
