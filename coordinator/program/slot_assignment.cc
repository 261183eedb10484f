// The pass that gives every micro-batch its slots, by lifetime, and every slot its place in the worker's arena.

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/action_text.h"
#include "common/memory_layout.h"
#include "common/status_macros.h"
#include "coordinator/program/arena_cells.h"
#include "coordinator/program/lowering_passes.h"
#include "coordinator/program/slot_sizes.h"

namespace stagecoach {
namespace {

enum Lifetime : size_t { kLoad, kSaved, kShared, kPending, kRecomputed };
constexpr size_t kNumLifetimes = 5;

// The slots of one user, a stage's lifetime or an end of a channel: which cells they are, and what each micro-batch
// has.
class SlotUser {
 public:
  SlotUser(ArenaCells& cells, CellPool& pool, uint64_t bytes, uint32_t num_micro_batches)
      : cells_(cells), pool_(pool), bytes_(bytes), held_(num_micro_batches, kNone) {}

  // Slots are used from instruction `at` on.
  int32_t Acquire(uint32_t micro_batch, size_t at) { return AcquireFront(micro_batch, at, bytes_); }
  // One of which only the first bytes are used. Nothing is larger than its users need it: where a whole one is free, it
  // is that one.
  int32_t AcquireFront(uint32_t micro_batch, size_t at, uint64_t bytes) {
    const size_t cell = pool_.Acquire(bytes);
    const int32_t slot = SlotOf(cell);
    Slot& acquired = slots_[static_cast<size_t>(slot)];
    acquired.since = at;
    acquired.bytes = std::max(acquired.bytes, bytes);
    held_[micro_batch] = slot;
    return slot;
  }
  // kNone: the micro-batch has none.
  int32_t Find(uint32_t micro_batch) const { return held_[micro_batch]; }
  // The slot is used up to instruction `at`, which still reads it.
  int32_t Release(uint32_t micro_batch, size_t at) {
    const int32_t slot = std::exchange(held_[micro_batch], kNone);
    if (slot == kNone) return slot;
    Slot& freed = slots_[static_cast<size_t>(slot)];
    cells_.Use(freed.cell, *std::exchange(freed.since, std::nullopt), at);
    pool_.Release(freed.cell);
    return slot;
  }
  // What was never released is in use to the end.
  void Finish(size_t last) {
    for (const Slot& slot : slots_) {
      if (slot.since.has_value()) cells_.Use(slot.cell, *slot.since, last);
    }
  }
  void WriteSlots(google::protobuf::RepeatedPtrField<v1::Slot>& list) const {
    for (const Slot& slot : slots_) {
      v1::Slot& written = *list.Add();
      written.set_offset(cells_.offset(slot.cell));
      written.set_bytes(AlignUp(slot.bytes));
    }
  }

  static constexpr int32_t kNone = -1;

 private:
  struct Slot {
    size_t cell = 0;
    std::optional<size_t> since = std::nullopt;  // held since this instruction
    uint64_t bytes = 0;                          // that its users need
  };

  int32_t SlotOf(size_t cell) {
    if (slot_of_cell_.size() <= cell) slot_of_cell_.resize(cell + 1, kNone);
    if (slot_of_cell_[cell] == kNone) {
      slot_of_cell_[cell] = static_cast<int32_t>(slots_.size());
      slots_.push_back({cell});
    }
    return slot_of_cell_[cell];
  }

  ArenaCells& cells_;
  CellPool& pool_;
  uint64_t bytes_;
  std::vector<Slot> slots_;
  std::vector<int32_t> slot_of_cell_;
  std::vector<int32_t> held_;  // by micro-batch
};

// Whether stages of one worker take turns in its cells. Turns cost memory where one stage needs much larger slots than
// another, since a cell is as large as the largest slot in it.
enum class Sharing { kByStage, kByWorker };

// One walk over the program of a worker.
class SlotAssignment {
 public:
  SlotAssignment(const LoweringContext& context, const ChannelPlans& plans, Sharing sharing, v1::StageProgram& program)
      : context_(context), program_(program), has_tie_channel_(plans.has_tie) {
    for (uint32_t stage = 0; stage < context.num_stages(); ++stage) {
      if (context.WorkerOf(stage) == program.worker_rank()) AddStage(stage, sharing);
    }
    for (const ChannelPlan& channel : plans.channels) {
      const bool is_here = channel.spec.from_worker_rank() == program.worker_rank() ||
                           channel.spec.to_worker_rank() == program.worker_rank();
      if (is_here) AddChannel(channel);
    }
    scratch_ = cells_.Add(scratch_bytes_);
  }

  absl::Status Assign() {
    const auto num_instructions = static_cast<size_t>(program_.instructions_size());
    for (at_ = 0; at_ < num_instructions; ++at_) {
      STAGECOACH_RETURN_IF_ERROR(AssignOne(*program_.mutable_instructions(static_cast<int>(at_))));
    }
    if (num_instructions == 0) return WriteLayout();
    const size_t last = num_instructions - 1;
    if (first_scratch_ <= last_scratch_) cells_.Use(scratch_, first_scratch_, last_scratch_);
    for (StageUsers& stage : stages_) {
      for (SlotUser& user : stage.lifetimes) user.Finish(last);
    }
    for (ChannelUsers& channel : channels_) {
      if (channel.receives.has_value()) channel.receives->Finish(last);
      // Nobody knows when the last transfer out of a buffer is complete, but that it is at the end.
      const size_t num_used = std::min(channel.num_written, channel.sends.size());
      for (size_t i = 0; i < num_used; ++i) cells_.Use(channel.sends[i].cell, channel.sends[i].since, last);
    }
    return WriteLayout();
  }

 private:
  struct StageUsers {
    uint32_t stage = 0;
    std::vector<SlotUser> lifetimes;  // [kNumLifetimes]
    uint64_t remade_bytes = 0;        // of the front of a pending slot
  };
  struct SendSlot {
    size_t cell = 0;
    size_t since = 0;
  };
  struct ChannelUsers {
    bool is_local = false;
    std::optional<SlotUser> receives = std::nullopt;  // of the receiving end, or of both
    std::vector<SendSlot> sends;
    size_t num_written = 0;  // to `sends`, in turns
    int32_t last_written = SlotUser::kNone;
    uint64_t bytes = 0;
  };

  CellPool& Pool(std::vector<std::unique_ptr<CellPool>>& pools, bool is_new) {
    if (pools.empty() || is_new) pools.push_back(std::make_unique<CellPool>(cells_));
    return *pools.back();
  }

  void AddStage(uint32_t stage, Sharing sharing) {
    const v1::StagePlan& plan = context_.StageAt(stage);
    const SlotSizes sizes = SlotSizesOf(context_.graph, LayersOf(plan), context_.forward_only);
    StageUsers& users = stages_.emplace_back();
    users.stage = stage;
    users.remade_bytes = sizes.remade;
    const std::array<uint64_t, kNumLifetimes> bytes = {sizes.load, sizes.saved, sizes.shared, sizes.pending,
                                                       sizes.recomputed};
    for (size_t lifetime = 0; lifetime < kNumLifetimes; ++lifetime) {
      CellPool& pool = Pool(stage_pools_[lifetime], sharing == Sharing::kByStage);
      users.lifetimes.emplace_back(cells_, pool, bytes[lifetime], context_.table.num_micro_batches());
    }
    scratch_bytes_ = std::max(scratch_bytes_, sizes.scratch);
  }

  // In the order of the program's channels.
  void AddChannel(const ChannelPlan& channel) {
    ChannelUsers& users = channels_.emplace_back();
    users.is_local = channel.is_local();
    users.bytes = channel.spec.bytes();
    const bool is_tie = channel.spec.kind() == v1::CHANNEL_KIND_TIE;
    if (channel.spec.to_worker_rank() == program_.worker_rank()) {
      // A tensor that no transport carries is of no concern to the number of receive buffers.
      CellPool& pool = is_tie ? Pool(tie_pools_, true) : Pool(users.is_local ? local_pools_ : receive_pools_, false);
      users.receives.emplace(cells_, pool, users.bytes, is_tie ? 1 : context_.table.num_micro_batches());
      return;
    }
    for (uint32_t i = 0; i < (is_tie ? 1 : channel.num_send_slots); ++i)
      users.sends.push_back({cells_.Add(users.bytes)});
  }

  StageUsers& UsersOf(uint32_t stage) {
    size_t index = 0;
    while (stages_[index].stage != stage) ++index;
    return stages_[index];
  }
  SlotUser& Slots(uint32_t stage, Lifetime lifetime) { return UsersOf(stage).lifetimes[lifetime]; }

  absl::Status AssignOne(v1::Instruction& instruction);
  absl::Status AssignForward(v1::Instruction& instruction);
  absl::Status AssignRecomputation(v1::Instruction& instruction);
  absl::Status AssignBackwardInput(v1::Instruction& instruction);
  absl::Status AssignBackwardWeight(v1::Instruction& instruction);
  void LendRecomputed(v1::Instruction& forward);
  // What waits there is for W. An evaluation's F makes its front.
  bool UsesPending(uint32_t stage) const { return context_.backward[stage].weight; }
  void UseScratch() { first_scratch_ = std::min(first_scratch_, at_), last_scratch_ = at_; }
  int32_t WriteTo(uint32_t channel, uint32_t micro_batch);
  absl::StatusOr<int32_t> ReadFrom(uint32_t channel, const v1::Action& action);
  // Of the stage's channel, if it has one, and of its skip edges.
  void WriteOutputs(bool sends, v1::Instruction& instruction);
  absl::Status ReadInputs(bool receives, v1::Instruction& instruction);
  absl::Status WriteLayout();

  const LoweringContext& context_;
  v1::StageProgram& program_;
  ArenaCells cells_;
  std::array<std::vector<std::unique_ptr<CellPool>>, kNumLifetimes> stage_pools_;
  std::vector<std::unique_ptr<CellPool>> receive_pools_, local_pools_, tie_pools_;
  std::vector<StageUsers> stages_;      // in pipeline order
  std::vector<ChannelUsers> channels_;  // by index in the program
  const bool has_tie_channel_;
  uint64_t scratch_bytes_ = 0;
  size_t scratch_ = 0;
  size_t first_scratch_ = SIZE_MAX, last_scratch_ = 0;  // instructions that need it
  size_t at_ = 0;                                       // the instruction
};

absl::Status SlotAssignment::AssignOne(v1::Instruction& instruction) {
  const v1::Action& action = instruction.action();
  switch (action.kind()) {
    case v1::ACTION_KIND_LOAD:
      instruction.set_load_slot(Slots(action.stage(), kLoad).Acquire(action.micro_batch(), at_));
      return absl::OkStatus();
    case v1::ACTION_KIND_FORWARD:
      return AssignForward(instruction);
    case v1::ACTION_KIND_RECOMPUTE:
      return AssignRecomputation(instruction);
    case v1::ACTION_KIND_BACKWARD_INPUT:
      return AssignBackwardInput(instruction);
    case v1::ACTION_KIND_BACKWARD_WEIGHT:
      return AssignBackwardWeight(instruction);
    case v1::ACTION_KIND_SEND_FORWARD:
    case v1::ACTION_KIND_SEND_BACKWARD:
      // What the F or I before it wrote.
      instruction.set_send_slot(channels_[instruction.channel()].last_written);
      return absl::OkStatus();
    case v1::ACTION_KIND_SEND_TIE:
      instruction.set_send_slot(WriteTo(instruction.channel(), action.micro_batch()));
      return absl::OkStatus();
    case v1::ACTION_KIND_RECV_FORWARD:
    case v1::ACTION_KIND_RECV_BACKWARD:
    case v1::ACTION_KIND_RECV_TIE:
      instruction.set_recv_slot(channels_[instruction.channel()].receives->Acquire(action.micro_batch(), at_));
      return absl::OkStatus();
    case v1::ACTION_KIND_TIE_REDUCE:
      return ReadInputs(has_tie_channel_, instruction);
    default:
      return absl::OkStatus();
  }
}

// A local channel has one set of slots: written here, read by the other stage's action.
int32_t SlotAssignment::WriteTo(uint32_t channel, uint32_t micro_batch) {
  ChannelUsers& users = channels_[channel];
  if (users.is_local) return users.receives->Acquire(micro_batch, at_);
  const size_t slot = users.num_written++ % users.sends.size();
  if (users.num_written <= users.sends.size()) users.sends[slot].since = at_;
  return users.last_written = static_cast<int32_t>(slot);
}

absl::StatusOr<int32_t> SlotAssignment::ReadFrom(uint32_t channel, const v1::Action& action) {
  const int32_t slot = channels_[channel].receives->Release(action.micro_batch(), at_);
  if (slot != SlotUser::kNone) return slot;
  return absl::InvalidArgumentError(
      absl::StrCat(ActionText(action), " does not come after the action of this worker that makes what it reads"));
}

void SlotAssignment::WriteOutputs(bool sends, v1::Instruction& instruction) {
  const uint32_t micro_batch = instruction.action().micro_batch();
  if (sends) instruction.set_send_slot(WriteTo(instruction.send_channel(), micro_batch));
  for (v1::SkipSlot& skip : *instruction.mutable_skip_send()) skip.set_slot(WriteTo(skip.channel(), micro_batch));
}

absl::Status SlotAssignment::ReadInputs(bool receives, v1::Instruction& instruction) {
  if (receives) {
    STAGECOACH_ASSIGN_OR_RETURN(const int32_t slot, ReadFrom(instruction.recv_channel(), instruction.action()));
    instruction.set_recv_slot(slot);
  }
  for (v1::SkipSlot& skip : *instruction.mutable_skip_recv()) {
    STAGECOACH_ASSIGN_OR_RETURN(const int32_t slot, ReadFrom(skip.channel(), instruction.action()));
    skip.set_slot(slot);
  }
  return absl::OkStatus();
}

// What an instruction writes is acquired before what it reads is released: both exist while it runs.
absl::Status SlotAssignment::AssignForward(v1::Instruction& instruction) {
  const uint32_t stage = instruction.action().stage();
  const uint32_t micro_batch = instruction.action().micro_batch();
  SlotUser& saved = Slots(stage, kSaved);
  SlotUser& shared = Slots(stage, kShared);
  SlotUser& load = Slots(stage, kLoad);
  UseScratch();
  WriteOutputs(!context_.IsLast(stage), instruction);
  instruction.set_load_slot(load.Find(micro_batch));
  instruction.set_saved_slot(saved.Acquire(micro_batch, at_));
  instruction.set_shared_slot(shared.Acquire(micro_batch, at_));
  if (context_.Recomputes(stage)) LendRecomputed(instruction);
  if (!context_.HasInput(stage)) {
    saved.Release(micro_batch, at_);
    shared.Release(micro_batch, at_);
  }
  // Tokens are copied by F; labels are read again by W.
  if (!context_.IsLast(stage) || !context_.HasWeight(stage)) load.Release(micro_batch, at_);
  return ReadInputs(stage > 0, instruction);
}

// Nobody reads what F leaves there: R makes it again.
void SlotAssignment::LendRecomputed(v1::Instruction& forward) {
  const uint32_t stage = forward.action().stage();
  const uint32_t micro_batch = forward.action().micro_batch();
  SlotUser& recomputed = Slots(stage, kRecomputed);
  forward.set_recomputed_slot(recomputed.Acquire(micro_batch, at_));
  if (UsesPending(stage)) {
    SlotUser& pending = Slots(stage, kPending);
    forward.set_pending_slot(pending.AcquireFront(micro_batch, at_, UsersOf(stage).remade_bytes));
    pending.Release(micro_batch, at_);
  }
  recomputed.Release(micro_batch, at_);
}

absl::Status SlotAssignment::AssignRecomputation(v1::Instruction& instruction) {
  const uint32_t stage = instruction.action().stage();
  const uint32_t micro_batch = instruction.action().micro_batch();
  UseScratch();
  instruction.set_shared_slot(Slots(stage, kShared).Find(micro_batch));
  SlotUser& recomputed = Slots(stage, kRecomputed);
  if (instruction.shared_slot() == SlotUser::kNone || recomputed.Find(micro_batch) != SlotUser::kNone ||
      Slots(stage, kPending).Find(micro_batch) != SlotUser::kNone) {
    return absl::InvalidArgumentError(absl::StrCat(
        ActionText(instruction.action()), " does not come between the forward and the backward of its micro-batch"));
  }
  if (UsesPending(stage)) instruction.set_pending_slot(Slots(stage, kPending).Acquire(micro_batch, at_));
  instruction.set_recomputed_slot(recomputed.Acquire(micro_batch, at_));
  return absl::OkStatus();
}

absl::Status SlotAssignment::AssignBackwardInput(v1::Instruction& instruction) {
  const uint32_t stage = instruction.action().stage();
  const uint32_t micro_batch = instruction.action().micro_batch();
  UseScratch();
  WriteOutputs(context_.SendsGradient(stage), instruction);
  if (context_.Recomputes(stage)) {
    instruction.set_pending_slot(Slots(stage, kPending).Find(micro_batch));
    instruction.set_recomputed_slot(Slots(stage, kRecomputed).Release(micro_batch, at_));
    if (instruction.recomputed_slot() == SlotUser::kNone) {
      return absl::InvalidArgumentError(
          absl::StrCat(ActionText(instruction.action()), " does not come after the R of its micro-batch"));
    }
  } else if (UsesPending(stage)) {
    instruction.set_pending_slot(Slots(stage, kPending).Acquire(micro_batch, at_));
  }
  instruction.set_saved_slot(Slots(stage, kSaved).Release(micro_batch, at_));
  SlotUser& shared = Slots(stage, kShared);
  instruction.set_shared_slot(context_.HasWeight(stage) ? shared.Find(micro_batch) : shared.Release(micro_batch, at_));
  if (instruction.saved_slot() == SlotUser::kNone || instruction.shared_slot() == SlotUser::kNone) {
    return absl::InvalidArgumentError(
        absl::StrCat(ActionText(instruction.action()), " does not come after the forward of its micro-batch"));
  }
  return ReadInputs(!context_.IsLast(stage), instruction);
}

absl::Status SlotAssignment::AssignBackwardWeight(v1::Instruction& instruction) {
  const uint32_t stage = instruction.action().stage();
  const uint32_t micro_batch = instruction.action().micro_batch();
  UseScratch();
  instruction.set_shared_slot(Slots(stage, kShared).Release(micro_batch, at_));
  instruction.set_pending_slot(Slots(stage, kPending).Release(micro_batch, at_));
  if (context_.IsLast(stage)) instruction.set_load_slot(Slots(stage, kLoad).Release(micro_batch, at_));
  if (instruction.shared_slot() != SlotUser::kNone && instruction.pending_slot() != SlotUser::kNone) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(ActionText(instruction.action()), " does not come after the backward of its micro-batch's input"));
}

absl::Status SlotAssignment::WriteLayout() {
  STAGECOACH_ASSIGN_OR_RETURN(const uint64_t arena_bytes, cells_.Place());
  program_.set_arena_bytes(arena_bytes);
  for (const StageUsers& users : stages_) {
    v1::StageSlots& slots = *program_.add_stages();
    slots.set_stage(users.stage);
    slots.set_first_layer(context_.StageAt(users.stage).first_layer());
    slots.set_last_layer(context_.StageAt(users.stage).last_layer());
    users.lifetimes[kLoad].WriteSlots(*slots.mutable_load());
    users.lifetimes[kSaved].WriteSlots(*slots.mutable_saved());
    users.lifetimes[kShared].WriteSlots(*slots.mutable_shared());
    users.lifetimes[kPending].WriteSlots(*slots.mutable_pending());
    users.lifetimes[kRecomputed].WriteSlots(*slots.mutable_recomputed());
    *slots.mutable_recomputed_layers() = context_.StageAt(users.stage).recomputed_layers();
    slots.set_frozen_below(users.stage > 0 && !context_.backward[users.stage].sends_gradient);
  }
  for (size_t i = 0; i < channels_.size(); ++i) {
    const ChannelUsers& users = channels_[i];
    auto& slots = *program_.add_channel_slots()->mutable_slots();
    if (users.receives.has_value()) users.receives->WriteSlots(slots);
    for (const SendSlot& send : users.sends) {
      v1::Slot& written = *slots.Add();
      written.set_offset(cells_.offset(send.cell));
      written.set_bytes(AlignUp(users.bytes));
    }
    if (users.is_local) {
      program_.mutable_channels(static_cast<int>(i))->set_num_slots(static_cast<uint32_t>(slots.size()));
    }
  }
  program_.mutable_scratch()->set_offset(cells_.offset(scratch_));
  program_.mutable_scratch()->set_bytes(AlignUp(scratch_bytes_));
  return absl::OkStatus();
}

int NumStagesOf(const LoweringContext& context, uint32_t worker) {
  return static_cast<int>(std::count_if(context.plan.stages().begin(), context.plan.stages().end(),
                                        [worker](const auto& stage) { return stage.worker_rank() == worker; }));
}

}  // namespace

absl::Status AssignSlots(const LoweringContext& context, const ChannelPlans& channels, Programs& programs) {
  for (v1::StageProgram& program : programs) {
    v1::StageProgram by_worker;
    const int num_stages = NumStagesOf(context, program.worker_rank());
    if (num_stages > 1) by_worker = program;
    STAGECOACH_RETURN_IF_ERROR(SlotAssignment(context, channels, Sharing::kByStage, program).Assign());
    if (num_stages < 2) continue;
    STAGECOACH_RETURN_IF_ERROR(SlotAssignment(context, channels, Sharing::kByWorker, by_worker).Assign());
    if (by_worker.arena_bytes() < program.arena_bytes()) program.Swap(&by_worker);
  }
  return absl::OkStatus();
}

}  // namespace stagecoach
