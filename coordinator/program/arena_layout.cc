// The pass that puts a worker's slots into one arena, one after another.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/memory_layout.h"
#include "common/status_macros.h"
#include "coordinator/program/lowering_passes.h"
#include "coordinator/program/slot_sizes.h"

namespace stagecoach {
namespace {

// Far above any machine; keeps sums from overflowing.
constexpr uint64_t kMaxArenaBytes = uint64_t{1} << 56;

class Arena {
 public:
  absl::Status Place(uint64_t bytes, v1::Slot& slot) {
    if (bytes > kMaxArenaBytes || end_ > kMaxArenaBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the slots of one worker need more than ", kMaxArenaBytes, " bytes; use smaller micro-batches"));
    }
    slot.set_offset(end_);
    slot.set_bytes(AlignUp(bytes));
    end_ += slot.bytes();
    return absl::OkStatus();
  }
  absl::Status PlaceAll(uint64_t bytes, google::protobuf::RepeatedPtrField<v1::Slot>& slots) {
    for (v1::Slot& slot : slots) STAGECOACH_RETURN_IF_ERROR(Place(bytes, slot));
    return absl::OkStatus();
  }
  uint64_t end() const { return end_; }

 private:
  uint64_t end_ = 0;
};

absl::Status LayOut(const LoweringContext& context, v1::StageProgram& program) {
  Arena arena;
  uint64_t scratch = 0;
  for (v1::StageSlots& stage : *program.mutable_stages()) {
    const SlotSizes sizes = SlotSizesOf(context.graph, stage.first_layer(), stage.last_layer(), context.forward_only);
    STAGECOACH_RETURN_IF_ERROR(arena.PlaceAll(sizes.load, *stage.mutable_load()));
    STAGECOACH_RETURN_IF_ERROR(arena.PlaceAll(sizes.saved, *stage.mutable_saved()));
    STAGECOACH_RETURN_IF_ERROR(arena.PlaceAll(sizes.shared, *stage.mutable_shared()));
    STAGECOACH_RETURN_IF_ERROR(arena.PlaceAll(sizes.pending, *stage.mutable_pending()));
    scratch = std::max(scratch, sizes.scratch);
  }
  for (const v1::ChannelSpec& channel : program.channels()) {
    v1::ChannelSlots* slots = program.add_channel_slots();
    for (uint32_t i = 0; i < channel.num_slots(); ++i) slots->add_slots();
    STAGECOACH_RETURN_IF_ERROR(arena.PlaceAll(channel.bytes(), *slots->mutable_slots()));
  }
  STAGECOACH_RETURN_IF_ERROR(arena.Place(scratch, *program.mutable_scratch()));
  program.set_arena_bytes(arena.end());
  return absl::OkStatus();
}

}  // namespace

absl::Status LayOutArenas(const LoweringContext& context, Programs& programs) {
  for (v1::StageProgram& program : programs) {
    STAGECOACH_RETURN_IF_ERROR(LayOut(context, program));
  }
  return absl::OkStatus();
}

}  // namespace stagecoach
