// The pass that gives every micro-batch its slots: by lifetime, the lowest free index.

#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "coordinator/program/lowering_passes.h"

namespace stagecoach {
namespace {

// Slots of one stage and lifetime.
class SlotPool {
 public:
  int32_t Acquire(uint32_t micro_batch) {
    if (free_.empty()) free_.insert(static_cast<int32_t>(size_++));
    const int32_t slot = *free_.begin();
    free_.erase(free_.begin());
    slot_of_[micro_batch] = slot;
    return slot;
  }
  // -1: none is held.
  int32_t Find(uint32_t micro_batch) const {
    const auto found = slot_of_.find(micro_batch);
    return found == slot_of_.end() ? -1 : found->second;
  }
  int32_t Release(uint32_t micro_batch) {
    const int32_t slot = Find(micro_batch);
    if (slot >= 0) free_.insert(slot);
    slot_of_.erase(micro_batch);
    return slot;
  }
  size_t size() const { return size_; }

 private:
  size_t size_ = 0;
  std::set<int32_t> free_;
  std::map<uint32_t, int32_t> slot_of_;
};

struct StagePools {
  SlotPool load, saved, shared, pending;
};

class SlotAssignment {
 public:
  explicit SlotAssignment(const LoweringContext& context) : context_(context) {}

  absl::Status Assign(v1::Instruction& instruction) {
    const v1::Action& action = instruction.action();
    StagePools& pools = pools_[action.stage()];
    switch (action.kind()) {
      case v1::ACTION_KIND_LOAD:
        instruction.set_load_slot(pools.load.Acquire(action.micro_batch()));
        break;
      case v1::ACTION_KIND_FORWARD:
        AssignForward(pools, instruction);
        break;
      case v1::ACTION_KIND_BACKWARD_INPUT:
        return AssignBackwardInput(pools, instruction);
      case v1::ACTION_KIND_BACKWARD_WEIGHT:
        return AssignBackwardWeight(pools, instruction);
      default:
        break;
    }
    return absl::OkStatus();
  }

  const std::map<uint32_t, StagePools>& pools() const { return pools_; }

 private:
  void AssignForward(StagePools& pools, v1::Instruction& instruction) {
    const uint32_t micro_batch = instruction.action().micro_batch();
    instruction.set_load_slot(pools.load.Find(micro_batch));
    instruction.set_saved_slot(pools.saved.Acquire(micro_batch));
    instruction.set_shared_slot(pools.shared.Acquire(micro_batch));
    if (context_.forward_only) {
      pools.saved.Release(micro_batch);
      pools.shared.Release(micro_batch);
    }
    // Tokens are copied by F; labels are read again by W.
    if (context_.forward_only || !context_.IsLast(instruction.action().stage())) pools.load.Release(micro_batch);
  }

  absl::Status AssignBackwardInput(StagePools& pools, v1::Instruction& instruction) {
    const uint32_t micro_batch = instruction.action().micro_batch();
    instruction.set_saved_slot(pools.saved.Release(micro_batch));
    instruction.set_shared_slot(pools.shared.Find(micro_batch));
    instruction.set_pending_slot(pools.pending.Acquire(micro_batch));
    if (instruction.saved_slot() >= 0 && instruction.shared_slot() >= 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(ActionText(instruction.action()), " does not come after the forward of its micro-batch"));
  }

  absl::Status AssignBackwardWeight(StagePools& pools, v1::Instruction& instruction) {
    const uint32_t micro_batch = instruction.action().micro_batch();
    instruction.set_shared_slot(pools.shared.Release(micro_batch));
    instruction.set_pending_slot(pools.pending.Release(micro_batch));
    if (context_.IsLast(instruction.action().stage())) instruction.set_load_slot(pools.load.Release(micro_batch));
    if (instruction.shared_slot() >= 0 && instruction.pending_slot() >= 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(ActionText(instruction.action()), " does not come after the backward of its micro-batch's input"));
  }

  const LoweringContext& context_;
  std::map<uint32_t, StagePools> pools_;  // by stage
};

void AddSlots(size_t count, google::protobuf::RepeatedPtrField<v1::Slot>& slots) {
  for (size_t i = 0; i < count; ++i) slots.Add();
}

}  // namespace

absl::Status AssignSlots(const LoweringContext& context, Programs& programs) {
  for (v1::StageProgram& program : programs) {
    SlotAssignment assignment(context);
    for (v1::Instruction& instruction : *program.mutable_instructions()) {
      STAGECOACH_RETURN_IF_ERROR(assignment.Assign(instruction));
    }
    for (const auto& [stage, pools] : assignment.pools()) {
      v1::StageSlots* slots = program.add_stages();
      slots->set_stage(stage);
      slots->set_first_layer(context.StageAt(stage).first_layer());
      slots->set_last_layer(context.StageAt(stage).last_layer());
      AddSlots(pools.load.size(), *slots->mutable_load());
      AddSlots(pools.saved.size(), *slots->mutable_saved());
      AddSlots(pools.shared.size(), *slots->mutable_shared());
      AddSlots(pools.pending.size(), *slots->mutable_pending());
    }
  }
  return absl::OkStatus();
}

}  // namespace stagecoach
