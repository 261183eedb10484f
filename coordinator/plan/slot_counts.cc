#include "coordinator/plan/slot_counts.h"

#include <algorithm>

namespace stagecoach {
namespace {

struct Held {
  uint32_t saved = 0, shared = 0, pending = 0;
};

void Raise(uint32_t& peak, uint32_t value) { peak = std::max(peak, value); }

// An action holds its own slots until it ends, those that it frees included. An R holds what its I does.
void Run(v1::ActionKind kind, Held& held, StageSlotCounts& peak) {
  if (kind == v1::ACTION_KIND_FORWARD) {
    Raise(peak.saved, ++held.saved);
    Raise(peak.shared, ++held.shared);
    Raise(peak.remade, held.pending + 1);
  }
  if (kind == v1::ACTION_KIND_BACKWARD || kind == v1::ACTION_KIND_BACKWARD_INPUT) {
    Raise(peak.pending, ++held.pending);
    Raise(peak.remade, held.pending);
    --held.saved;
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
  for (const v1::WorkerActions& row : table.workers()) {
    for (const v1::Action& action : row.actions()) Run(action.kind(), held[action.stage()], counts[action.stage()]);
  }
  // Down and up.
  for (StageSlotCounts& stage : counts) stage.transfers_before = stage.transfers_behind = 2 * kTransferSlots;
  counts.front().transfers_before = 0;
  counts.back().transfers_behind = 0;
  // Tokens are copied by F; labels are read again by W.
  counts.front().load = 1;
  counts.back().load = counts.back().shared;
  return counts;
}

}  // namespace stagecoach
