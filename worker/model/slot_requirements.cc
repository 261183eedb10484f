#include "worker/model/slot_requirements.h"

#include <cstddef>
#include <span>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

absl::Status CheckSlot(const char* lifetime, std::span<const std::byte> slot, uint64_t needed) {
  if (slot.size() >= needed) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the ", lifetime, " slot has ", slot.size(),
                                                 " bytes, the stage needs ", needed,
                                                 "; the program was lowered for other layers"));
}

}  // namespace

absl::StatusOr<SlotRequirements> SlotRequirements::Of(const Device& device, const v1::ModelGraph& graph,
                                                      const StageExtent& extent) {
  const uint64_t element_bytes = BytesOf(device.capabilities().compute_dtype);
  STAGECOACH_ASSIGN_OR_RETURN(const StageMemoryBytes bytes, MemoryOfStage(graph, extent, element_bytes));
  return SlotRequirements({.saved = bytes.saved,
                           .shared = bytes.shared,
                           .pending = bytes.pending,
                           .scratch = bytes.scratch,
                           .remade = bytes.remade,
                           .recomputed = bytes.recomputed},
                          static_cast<int64_t>(graph.micro_batch_size()));
}

absl::Status SlotRequirements::CheckForward(const MicroBatch& micro_batch, const StageMemoryView& memory) const {
  STAGECOACH_RETURN_IF_ERROR(CheckCall(micro_batch, memory));
  STAGECOACH_RETURN_IF_ERROR(CheckSlot("pending", memory.pending, bytes_.remade));
  STAGECOACH_RETURN_IF_ERROR(CheckSlot("recomputed", memory.recomputed, bytes_.recomputed));
  return CheckSlot("saved", memory.saved, bytes_.saved);
}

absl::Status SlotRequirements::CheckRecompute(const MicroBatch& micro_batch, const StageMemoryView& memory) const {
  STAGECOACH_RETURN_IF_ERROR(CheckCall(micro_batch, memory));
  STAGECOACH_RETURN_IF_ERROR(CheckSlot("pending", memory.pending, bytes_.pending));
  return CheckSlot("recomputed", memory.recomputed, bytes_.recomputed);
}

absl::Status SlotRequirements::CheckBackwardInput(const MicroBatch& micro_batch, const StageMemoryView& memory) const {
  STAGECOACH_RETURN_IF_ERROR(CheckForward(micro_batch, memory));
  return CheckSlot("pending", memory.pending, bytes_.pending);
}

absl::Status SlotRequirements::CheckBackwardWeight(const MicroBatch& micro_batch, const StageMemoryView& memory) const {
  STAGECOACH_RETURN_IF_ERROR(CheckCall(micro_batch, memory));
  return CheckSlot("pending", memory.pending, bytes_.pending);
}

absl::Status SlotRequirements::CheckCall(const MicroBatch& micro_batch, const StageMemoryView& memory) const {
  if (micro_batch.samples < 0 || micro_batch.samples > max_samples_) {
    return absl::InvalidArgumentError(absl::StrCat("micro-batch ", micro_batch.index.value(), " has ",
                                                   micro_batch.samples, " samples; the stage is planned for at most ",
                                                   max_samples_));
  }
  STAGECOACH_RETURN_IF_ERROR(CheckSlot("shared", memory.shared, bytes_.shared));
  return CheckSlot("scratch", memory.scratch, bytes_.scratch);
}

}  // namespace stagecoach
