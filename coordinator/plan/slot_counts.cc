#include "coordinator/plan/slot_counts.h"

#include <algorithm>

#include "coordinator/schedule/pruned_table.h"

namespace stagecoach {
namespace {

struct Held {
  uint32_t saved = 0, shared = 0, pending = 0;
};

void Raise(uint32_t& peak, uint32_t value) { peak = std::max(peak, value); }

// An action holds its own slots until it ends, those that it frees included. An R holds what its I does.
void Run(v1::ActionKind kind, const StageBackward& backward, Held& held, StageSlotCounts& peak) {
  if (kind == v1::ACTION_KIND_FORWARD) {
    Raise(peak.saved, held.saved + 1);
    Raise(peak.shared, held.shared + 1);
    Raise(peak.remade, held.pending + 1);
    if (!backward.input) return;
    ++held.saved;
    ++held.shared;
  }
  if (kind == v1::ACTION_KIND_BACKWARD || kind == v1::ACTION_KIND_BACKWARD_INPUT) {
    --held.saved;
    if (!backward.weight) {
      --held.shared;
      return;
    }
    Raise(peak.pending, ++held.pending);
    Raise(peak.remade, held.pending);
  }
  if (kind == v1::ACTION_KIND_BACKWARD || kind == v1::ACTION_KIND_BACKWARD_WEIGHT) {
    --held.shared;
    --held.pending;
  }
}

}  // namespace

std::vector<StageSlotCounts> SlotCountsOf(const v1::ComputeTable& table) {
  std::vector<StageSlotCounts> counts(table.num_stages());
  std::vector<Held> held(table.num_stages());
  const std::vector<StageBackward> backward = BackwardOfTable(table);
  for (const v1::WorkerActions& row : table.workers()) {
    for (const v1::Action& action : row.actions()) {
      const uint32_t stage = action.stage();
      Run(action.kind(), backward[stage], held[stage], counts[stage]);
    }
  }
  // Down and up.
  for (StageSlotCounts& stage : counts) stage.transfers_before = stage.transfers_behind = 2 * kTransferSlots;
  counts.front().transfers_before = 0;
  counts.back().transfers_behind = 0;
  // Tokens are copied by F; labels are read again by W.
  counts.front().load = 1;
  counts.back().load = backward.back().weight ? counts.back().shared : 1;
  return counts;
}

}  // namespace stagecoach
