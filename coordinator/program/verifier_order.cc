// The walk over one worker's program: which slot holds what, and what every stage has done so far.

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <string>

#include "common/skip_connections.h"
#include "common/status_macros.h"
#include "coordinator/program/instruction_uses.h"
#include "coordinator/program/slot_table.h"
#include "coordinator/program/verifier_checks.h"

namespace stagecoach {
namespace {

struct StageState {
  explicit StageState(const v1::StageSlots& slots, uint32_t num_micro_batches)
      : load(slots.load()),
        saved(slots.saved()),
        shared(slots.shared()),
        pending(slots.pending()),
        recomputed(slots.recomputed()),
        forward_done(num_micro_batches),
        recompute_done(num_micro_batches),
        input_done(num_micro_batches) {}

  SlotTable load, saved, shared, pending, recomputed;
  std::vector<bool> forward_done, recompute_done, input_done;
  uint32_t num_weight_done = 0;  // in micro-batch order, so that this is also the next one
  uint32_t num_losses = 0;
  std::optional<uint32_t> unread_loss = std::nullopt;
  bool tie_sent = false, tie_reduced = false, norm_done = false;
};

class ProgramWalk {
 public:
  ProgramWalk(const v1::StageProgram& program, const PipelineShape& shape)
      : program_(program),
        shape_(shape),
        num_unread_(static_cast<size_t>(program.channels_size())),
        posts_(static_cast<size_t>(program.channels_size())) {
    for (const v1::StageSlots& slots : program.stages()) {
      stages_.emplace(slots.stage(), StageState(slots, shape.num_micro_batches));
    }
    for (const v1::ChannelSlots& slots : program.channel_slots()) channels_.emplace_back(slots.slots());
  }

  absl::StatusOr<Posts> Walk() {
    for (index_ = 0; index_ < program_.instructions_size(); ++index_) {
      STAGECOACH_RETURN_IF_ERROR(Step(program_.instructions(index_)));
    }
    for (const auto& [stage, state] : stages_) STAGECOACH_RETURN_IF_ERROR(CheckEnd(stage, state));
    STAGECOACH_RETURN_IF_ERROR(CheckChannelsAtEnd());
    return posts_;
  }

 private:
  template <typename... Parts>
  absl::Status Error(const Parts&... parts) const {
    return RefuseAt(program_, index_, parts...);
  }
  bool IsFirst(uint32_t stage) const { return stage == 0; }
  bool IsLast(uint32_t stage) const { return stage + 1 == shape_.num_stages; }
  bool Recomputes(uint32_t stage) const { return shape_.recomputes[stage]; }

  absl::Status Step(const v1::Instruction& instruction);
  absl::Status CheckChannel(uint32_t channel, std::initializer_list<v1::ChannelKind> kinds, bool sends,
                            uint32_t stage) const;
  absl::Status CheckPostChannel(const v1::Instruction& post, bool is_forward, bool sends) const;
  std::string SlotName(uint32_t channel, absl::string_view usual) const;

  absl::Status Load(const v1::Instruction& instruction, StageState& state);
  absl::Status Forward(const v1::Instruction& instruction, StageState& state);
  absl::Status Recompute(const v1::Instruction& instruction, StageState& state);
  absl::Status BackwardInput(const v1::Instruction& instruction, StageState& state);
  absl::Status BackwardWeight(const v1::Instruction& instruction, StageState& state);
  absl::Status Loss(const v1::Instruction& instruction, StageState& state);
  absl::Status Send(const v1::Instruction& instruction);
  absl::Status Recv(const v1::Instruction& instruction);
  absl::Status Tie(const v1::Instruction& instruction, StageState& state);
  absl::Status Norm(const v1::Instruction& instruction, StageState& state);

  absl::Status Write(SlotTable& table, int32_t slot, uint32_t micro_batch, absl::string_view what);
  absl::Status Read(const SlotTable& table, int32_t slot, uint32_t micro_batch, absl::string_view what) const;
  absl::Status ReadAndFree(SlotTable& table, int32_t slot, uint32_t micro_batch, absl::string_view what);
  void Free(SlotTable& table, int32_t slot);
  absl::Status WriteRecomputed(const v1::Instruction& instruction, StageState& state);
  absl::Status WriteSlot(uint32_t channel, int32_t slot, uint32_t micro_batch);
  absl::Status ReadSlot(uint32_t channel, int32_t slot, uint32_t micro_batch);
  absl::Status WriteSends(const v1::Instruction& instruction);
  absl::Status ConsumeRecvs(const v1::Instruction& instruction);
  absl::Status UseScratch();
  absl::Status Post(const v1::Instruction& instruction);
  absl::Status PostReceive(const v1::Instruction& instruction, uint32_t micro_batch);

  absl::Status CheckEnd(uint32_t stage, const StageState& state) const;
  absl::Status CheckChannelsAtEnd() const;
  bool IsReceiver(int channel) const { return program_.channels(channel).to_worker_rank() == program_.worker_rank(); }
  bool IsLocal(uint32_t channel) const { return IsWithinWorker(program_.channels(static_cast<int>(channel))); }

  const v1::StageProgram& program_;
  const PipelineShape& shape_;
  std::map<uint32_t, StageState> stages_;
  std::vector<SlotTable> channels_;
  LiveRanges live_;
  std::vector<uint32_t> num_unread_;  // by channel: receives that have been posted and not been read
  Posts posts_;
  int index_ = 0;
};

absl::Status ProgramWalk::CheckChannel(uint32_t channel, std::initializer_list<v1::ChannelKind> kinds, bool sends,
                                       uint32_t stage) const {
  if (channel >= channels_.size()) return Error("there is no channel ", channel);
  const v1::ChannelSpec& spec = program_.channels(static_cast<int>(channel));
  if (std::find(kinds.begin(), kinds.end(), spec.kind()) == kinds.end() ||
      (sends ? spec.from_stage() : spec.to_stage()) != stage) {
    return Error("the ", ChannelName(spec), " is not the one that it ", sends ? "sends" : "receives", " on");
  }
  return absl::OkStatus();
}

absl::Status ProgramWalk::CheckPostChannel(const v1::Instruction& post, bool is_forward, bool sends) const {
  const uint32_t stage = post.action().stage();
  if (is_forward) {
    return CheckChannel(post.channel(), {v1::CHANNEL_KIND_ACTIVATION, v1::CHANNEL_KIND_SKIP}, sends, stage);
  }
  return CheckChannel(post.channel(), {v1::CHANNEL_KIND_GRADIENT, v1::CHANNEL_KIND_SKIP_GRADIENT}, sends, stage);
}

// Of a skip edge, of which an instruction may use several, by the edge.
std::string ProgramWalk::SlotName(uint32_t channel, absl::string_view usual) const {
  const v1::ChannelSpec& spec = program_.channels(static_cast<int>(channel));
  return IsSkip(spec.kind()) ? ChannelName(spec) : std::string(usual);
}

absl::Status ProgramWalk::Step(const v1::Instruction& instruction) {
  const v1::Action& action = instruction.action();
  const auto found = stages_.find(action.stage());
  if (found == stages_.end()) return Error("this worker does not hold stage ", action.stage());
  StageState& state = found->second;
  if (action.micro_batch() >= shape_.num_micro_batches) {
    return Error("there are ", shape_.num_micro_batches, " micro-batches");
  }
  if (state.norm_done) return Error("comes after the norm, which ends the step of its stage");
  if (const std::string wrong = WrongUses(instruction, program_, shape_); !wrong.empty()) return Error(wrong);
  switch (action.kind()) {
    case v1::ACTION_KIND_LOAD:
      return Load(instruction, state);
    case v1::ACTION_KIND_FORWARD:
      return Forward(instruction, state);
    case v1::ACTION_KIND_RECOMPUTE:
      return Recompute(instruction, state);
    case v1::ACTION_KIND_BACKWARD_INPUT:
      return BackwardInput(instruction, state);
    case v1::ACTION_KIND_BACKWARD_WEIGHT:
      return BackwardWeight(instruction, state);
    case v1::ACTION_KIND_LOSS:
      return Loss(instruction, state);
    case v1::ACTION_KIND_SEND_FORWARD:
    case v1::ACTION_KIND_SEND_BACKWARD:
      return Send(instruction);
    case v1::ACTION_KIND_RECV_FORWARD:
    case v1::ACTION_KIND_RECV_BACKWARD:
      return Recv(instruction);
    case v1::ACTION_KIND_SEND_TIE:
    case v1::ACTION_KIND_RECV_TIE:
    case v1::ACTION_KIND_TIE_REDUCE:
      return Tie(instruction, state);
    case v1::ACTION_KIND_GRADIENT_NORM:
      return Norm(instruction, state);
    default:
      return Error("a program has no action of kind ", static_cast<int>(action.kind()));
  }
}

absl::Status ProgramWalk::Write(SlotTable& table, int32_t slot, uint32_t micro_batch, absl::string_view what) {
  if (static_cast<size_t>(slot) >= table.states.size()) return Error("there is no ", what, " slot ", slot);
  SlotState& state = table.states[static_cast<size_t>(slot)];
  if (state.content != Content::kNothing) {
    return Error("writes ", what, " slot ", slot, ", which still holds micro-batch ", state.micro_batch);
  }
  if (!live_.Add(table.slots->Get(slot))) {
    return Error("writes ", what, " slot ", slot, ", whose bytes another slot in use shares");
  }
  state = {Content::kWritten, micro_batch};
  return absl::OkStatus();
}

absl::Status ProgramWalk::Read(const SlotTable& table, int32_t slot, uint32_t micro_batch,
                               absl::string_view what) const {
  if (static_cast<size_t>(slot) >= table.states.size()) return Error("there is no ", what, " slot ", slot);
  const SlotState& state = table.states[static_cast<size_t>(slot)];
  if (state.content == Content::kNothing) return Error("reads ", what, " slot ", slot, ", which holds nothing");
  if (state.micro_batch != micro_batch) {
    return Error("reads ", what, " slot ", slot, ", which holds micro-batch ", state.micro_batch);
  }
  return absl::OkStatus();
}

void ProgramWalk::Free(SlotTable& table, int32_t slot) {
  live_.Remove(table.slots->Get(slot));
  table.states[static_cast<size_t>(slot)] = {};
}

absl::Status ProgramWalk::ReadAndFree(SlotTable& table, int32_t slot, uint32_t micro_batch, absl::string_view what) {
  STAGECOACH_RETURN_IF_ERROR(Read(table, slot, micro_batch, what));
  Free(table, slot);
  return absl::OkStatus();
}

absl::Status ProgramWalk::UseScratch() {
  if (!live_.Add(program_.scratch())) return Error("its scratch region shares bytes with a slot in use");
  live_.Remove(program_.scratch());
  return absl::OkStatus();
}

absl::Status ProgramWalk::WriteSlot(uint32_t channel, int32_t slot, uint32_t micro_batch) {
  SlotTable& table = channels_[channel];
  const auto index = static_cast<size_t>(slot);
  // It waits for a send in flight, so the slot is free by then.
  if (index < table.states.size() && table.states[index].content == Content::kInFlight) Free(table, slot);
  return Write(table, slot, micro_batch, SlotName(channel, "send"));
}

absl::Status ProgramWalk::ReadSlot(uint32_t channel, int32_t slot, uint32_t micro_batch) {
  if (!IsLocal(channel)) --num_unread_[channel];
  return ReadAndFree(channels_[channel], slot, micro_batch, SlotName(channel, "receive"));
}

absl::Status ProgramWalk::WriteSends(const v1::Instruction& instruction) {
  const v1::Action& action = instruction.action();
  const bool is_forward = action.kind() == v1::ACTION_KIND_FORWARD;
  if (instruction.send_slot() >= 0) {
    const v1::ChannelKind kind = is_forward ? v1::CHANNEL_KIND_ACTIVATION : v1::CHANNEL_KIND_GRADIENT;
    STAGECOACH_RETURN_IF_ERROR(CheckChannel(instruction.send_channel(), {kind}, true, action.stage()));
    STAGECOACH_RETURN_IF_ERROR(WriteSlot(instruction.send_channel(), instruction.send_slot(), action.micro_batch()));
  }
  for (const v1::SkipSlot& skip : instruction.skip_send()) {
    STAGECOACH_RETURN_IF_ERROR(WriteSlot(skip.channel(), skip.slot(), action.micro_batch()));
  }
  return absl::OkStatus();
}

absl::Status ProgramWalk::ConsumeRecvs(const v1::Instruction& instruction) {
  const v1::Action& action = instruction.action();
  if (instruction.recv_slot() >= 0) {
    v1::ChannelKind kind = v1::CHANNEL_KIND_GRADIENT;
    if (action.kind() == v1::ACTION_KIND_FORWARD) kind = v1::CHANNEL_KIND_ACTIVATION;
    if (action.kind() == v1::ACTION_KIND_TIE_REDUCE) kind = v1::CHANNEL_KIND_TIE;
    STAGECOACH_RETURN_IF_ERROR(CheckChannel(instruction.recv_channel(), {kind}, false, action.stage()));
    STAGECOACH_RETURN_IF_ERROR(ReadSlot(instruction.recv_channel(), instruction.recv_slot(), action.micro_batch()));
  }
  for (const v1::SkipSlot& skip : instruction.skip_recv()) {
    STAGECOACH_RETURN_IF_ERROR(ReadSlot(skip.channel(), skip.slot(), action.micro_batch()));
  }
  return absl::OkStatus();
}

absl::Status ProgramWalk::Load(const v1::Instruction& instruction, StageState& state) {
  const uint32_t stage = instruction.action().stage();
  if (!IsFirst(stage) && !IsLast(stage)) return Error("only the first and the last stage load");
  return Write(state.load, instruction.load_slot(), instruction.action().micro_batch(), "load");
}

absl::Status ProgramWalk::Forward(const v1::Instruction& instruction, StageState& state) {
  const uint32_t stage = instruction.action().stage();
  const uint32_t micro_batch = instruction.action().micro_batch();
  if (state.forward_done[micro_batch]) return Error("runs a second time");
  state.forward_done[micro_batch] = true;
  // Input and output exist together, and with the slots that the call fills.
  STAGECOACH_RETURN_IF_ERROR(WriteSends(instruction));
  STAGECOACH_RETURN_IF_ERROR(Write(state.saved, instruction.saved_slot(), micro_batch, "saved"));
  STAGECOACH_RETURN_IF_ERROR(Write(state.shared, instruction.shared_slot(), micro_batch, "shared"));
  if (Recomputes(stage)) STAGECOACH_RETURN_IF_ERROR(WriteRecomputed(instruction, state));
  STAGECOACH_RETURN_IF_ERROR(UseScratch());
  STAGECOACH_RETURN_IF_ERROR(ConsumeRecvs(instruction));
  if (instruction.load_slot() >= 0) {
    STAGECOACH_RETURN_IF_ERROR(Read(state.load, instruction.load_slot(), micro_batch, "load"));
    if (!IsLast(stage) || !shape_.HasWeight(stage)) Free(state.load, instruction.load_slot());
  }
  if (Recomputes(stage)) {
    if (shape_.LeavesPending(stage)) Free(state.pending, instruction.pending_slot());
    Free(state.recomputed, instruction.recomputed_slot());
  }
  if (!shape_.HasInput(stage)) {
    Free(state.saved, instruction.saved_slot());
    Free(state.shared, instruction.shared_slot());
  }
  if (!IsLast(stage)) return absl::OkStatus();
  if (state.unread_loss.has_value()) return Error("overwrites the loss of micro-batch ", *state.unread_loss);
  state.unread_loss = micro_batch;
  return absl::OkStatus();
}

absl::Status ProgramWalk::WriteRecomputed(const v1::Instruction& instruction, StageState& state) {
  const uint32_t micro_batch = instruction.action().micro_batch();
  if (shape_.LeavesPending(instruction.action().stage())) {
    STAGECOACH_RETURN_IF_ERROR(Write(state.pending, instruction.pending_slot(), micro_batch, "pending"));
  }
  return Write(state.recomputed, instruction.recomputed_slot(), micro_batch, "recomputed");
}

absl::Status ProgramWalk::Recompute(const v1::Instruction& instruction, StageState& state) {
  const uint32_t micro_batch = instruction.action().micro_batch();
  if (!Recomputes(instruction.action().stage())) return Error("its stage has no layers to recompute");
  if (shape_.forward_only) return Error("a forward-only program has no backward");
  if (state.recompute_done[micro_batch]) return Error("runs a second time");
  state.recompute_done[micro_batch] = true;
  STAGECOACH_RETURN_IF_ERROR(WriteRecomputed(instruction, state));
  STAGECOACH_RETURN_IF_ERROR(UseScratch());
  return Read(state.shared, instruction.shared_slot(), micro_batch, "shared");
}

absl::Status ProgramWalk::BackwardInput(const v1::Instruction& instruction, StageState& state) {
  const uint32_t stage = instruction.action().stage();
  const uint32_t micro_batch = instruction.action().micro_batch();
  const bool again = Recomputes(stage);
  if (shape_.forward_only) return Error("a forward-only program has no backward");
  if (!shape_.HasInput(stage)) return Error("every layer of its stage and below is frozen");
  if (state.input_done[micro_batch]) return Error("runs a second time");
  state.input_done[micro_batch] = true;
  STAGECOACH_RETURN_IF_ERROR(WriteSends(instruction));
  if (shape_.LeavesPending(stage)) {
    STAGECOACH_RETURN_IF_ERROR(again ? Read(state.pending, instruction.pending_slot(), micro_batch, "pending")
                                     : Write(state.pending, instruction.pending_slot(), micro_batch, "pending"));
  }
  if (again) {
    STAGECOACH_RETURN_IF_ERROR(Read(state.recomputed, instruction.recomputed_slot(), micro_batch, "recomputed"));
  }
  STAGECOACH_RETURN_IF_ERROR(Read(state.shared, instruction.shared_slot(), micro_batch, "shared"));
  STAGECOACH_RETURN_IF_ERROR(UseScratch());
  STAGECOACH_RETURN_IF_ERROR(ConsumeRecvs(instruction));
  if (again) Free(state.recomputed, instruction.recomputed_slot());
  if (!shape_.HasWeight(stage)) Free(state.shared, instruction.shared_slot());
  return ReadAndFree(state.saved, instruction.saved_slot(), micro_batch, "saved");
}

absl::Status ProgramWalk::BackwardWeight(const v1::Instruction& instruction, StageState& state) {
  const uint32_t micro_batch = instruction.action().micro_batch();
  if (shape_.forward_only) return Error("a forward-only program has no backward");
  if (!shape_.HasWeight(instruction.action().stage())) return Error("every layer of its stage is frozen");
  if (micro_batch != state.num_weight_done) {
    return Error("weight gradients are added in micro-batch order, and the next is that of micro-batch ",
                 state.num_weight_done);
  }
  if (!state.input_done[micro_batch]) return Error("comes before the I of its micro-batch");
  ++state.num_weight_done;
  STAGECOACH_RETURN_IF_ERROR(UseScratch());
  if (instruction.load_slot() >= 0) {
    STAGECOACH_RETURN_IF_ERROR(ReadAndFree(state.load, instruction.load_slot(), micro_batch, "load"));
  }
  STAGECOACH_RETURN_IF_ERROR(ReadAndFree(state.shared, instruction.shared_slot(), micro_batch, "shared"));
  return ReadAndFree(state.pending, instruction.pending_slot(), micro_batch, "pending");
}

absl::Status ProgramWalk::Loss(const v1::Instruction& instruction, StageState& state) {
  if (state.unread_loss != instruction.action().micro_batch()) {
    return Error("the last stage's latest forward is not of this micro-batch, or its loss has been read");
  }
  state.unread_loss.reset();
  ++state.num_losses;
  return absl::OkStatus();
}

absl::Status ProgramWalk::Post(const v1::Instruction& instruction) {
  if (IsLocal(instruction.channel())) return Error("posts on a channel that has both ends here");
  std::vector<uint32_t>& posts = posts_[instruction.channel()];
  if (instruction.sequence() != posts.size()) {
    return Error("is post ", posts.size(), " of the ",
                 ChannelName(program_.channels(static_cast<int>(instruction.channel()))), ", but says ",
                 instruction.sequence());
  }
  posts.push_back(instruction.action().micro_batch());
  return absl::OkStatus();
}

absl::Status ProgramWalk::Send(const v1::Instruction& instruction) {
  const v1::Action& action = instruction.action();
  const bool is_forward = action.kind() == v1::ACTION_KIND_SEND_FORWARD;
  STAGECOACH_RETURN_IF_ERROR(CheckPostChannel(instruction, is_forward, true));
  SlotTable& table = channels_[instruction.channel()];
  STAGECOACH_RETURN_IF_ERROR(
      Read(table, instruction.send_slot(), action.micro_batch(), SlotName(instruction.channel(), "send")));
  SlotState& state = table.states[static_cast<size_t>(instruction.send_slot())];
  if (state.content == Content::kInFlight) return Error("posts a slot that is in flight");
  state.content = Content::kInFlight;
  return Post(instruction);
}

absl::Status ProgramWalk::PostReceive(const v1::Instruction& instruction, uint32_t micro_batch) {
  const uint32_t channel = instruction.channel();
  STAGECOACH_RETURN_IF_ERROR(
      Write(channels_[channel], instruction.recv_slot(), micro_batch, SlotName(channel, "receive")));
  const v1::ChannelSpec& spec = program_.channels(static_cast<int>(channel));
  if (++num_unread_[channel] > spec.num_slots()) {
    return Error("is one post more than the ", spec.num_slots(), " that may be under way on the ", ChannelName(spec));
  }
  return Post(instruction);
}

absl::Status ProgramWalk::Recv(const v1::Instruction& instruction) {
  const v1::Action& action = instruction.action();
  const bool is_forward = action.kind() == v1::ACTION_KIND_RECV_FORWARD;
  STAGECOACH_RETURN_IF_ERROR(CheckPostChannel(instruction, is_forward, false));
  return PostReceive(instruction, action.micro_batch());
}

absl::Status ProgramWalk::Tie(const v1::Instruction& instruction, StageState& state) {
  const v1::Action& action = instruction.action();
  if (!shape_.IsTied(action.stage()) || action.micro_batch() != 0) return Error("this stage has no such tie");
  if (action.kind() == v1::ACTION_KIND_RECV_TIE) {
    STAGECOACH_RETURN_IF_ERROR(CheckChannel(instruction.channel(), {v1::CHANNEL_KIND_TIE}, false, action.stage()));
    return PostReceive(instruction, 0);
  }
  if (state.num_weight_done != shape_.num_micro_batches) return Error("comes before the last W of its stage");
  if (state.tie_reduced) return Error("comes after the sum of both uses has been made");
  if (action.kind() == v1::ACTION_KIND_SEND_TIE) {
    STAGECOACH_RETURN_IF_ERROR(CheckChannel(instruction.channel(), {v1::CHANNEL_KIND_TIE}, true, action.stage()));
    SlotTable& table = channels_[instruction.channel()];
    STAGECOACH_RETURN_IF_ERROR(Write(table, instruction.send_slot(), 0, "send"));
    state.tie_sent = true;
    if (IsLocal(instruction.channel())) {
      return instruction.sequence() == 0 ? absl::OkStatus() : Error("numbers what is no transfer");
    }
    table.states[static_cast<size_t>(instruction.send_slot())].content = Content::kInFlight;
    return Post(instruction);
  }
  if (shape_.SendsTie(action.stage())) {
    if (!state.tie_sent) return Error("overwrites the accumulator before it has been sent");
    STAGECOACH_RETURN_IF_ERROR(ConsumeRecvs(instruction));
  }
  state.tie_reduced = true;
  return absl::OkStatus();
}

absl::Status ProgramWalk::Norm(const v1::Instruction& instruction, StageState& state) {
  const v1::Action& action = instruction.action();
  if (shape_.forward_only || action.micro_batch() != 0) return Error("there is no such norm");
  if (shape_.HasWeight(action.stage()) && state.num_weight_done != shape_.num_micro_batches) {
    return Error("comes before the last W of its stage");
  }
  if (shape_.IsTied(action.stage()) && !state.tie_reduced) return Error("comes before the tie of its stage is reduced");
  state.norm_done = true;
  return absl::OkStatus();
}

absl::Status ProgramWalk::CheckEnd(uint32_t stage, const StageState& state) const {
  const auto missing = [&](absl::string_view what, size_t micro_batch) {
    return Refuse("worker ", program_.worker_rank(), ": ", stage, what, micro_batch, " never runs");
  };
  for (size_t i = 0; i < shape_.num_micro_batches; ++i) {
    if (!state.forward_done[i]) return missing("F", i);
    if (shape_.HasInput(stage) && !state.input_done[i]) return missing("I", i);
  }
  if (shape_.HasWeight(stage) && state.num_weight_done < shape_.num_micro_batches) {
    return missing("W", state.num_weight_done);
  }
  if (IsLast(stage) && state.num_losses < shape_.num_micro_batches) return missing("LOSS", state.num_losses);
  if (!shape_.forward_only && !state.norm_done) {
    return Refuse("worker ", program_.worker_rank(), ": ", stage, "NORM never runs");
  }
  for (const SlotTable* table : {&state.load, &state.saved, &state.shared, &state.pending, &state.recomputed}) {
    for (const SlotState& slot : table->states) {
      if (slot.content == Content::kNothing) continue;
      return Refuse("worker ", program_.worker_rank(), ": a slot of stage ", stage, " still holds micro-batch ",
                    slot.micro_batch, " at the end");
    }
  }
  return absl::OkStatus();
}

absl::Status ProgramWalk::CheckChannelsAtEnd() const {
  for (int channel = 0; channel < program_.channels_size(); ++channel) {
    for (const SlotState& slot : channels_[static_cast<size_t>(channel)].states) {
      if (slot.content != Content::kWritten) continue;
      return Refuse("worker ", program_.worker_rank(), ": the ", ChannelName(program_.channels(channel)), " ends with ",
                    IsReceiver(channel) ? "a tensor that nothing reads, of micro-batch "
                                        : "a tensor that is never sent, of micro-batch ",
                    slot.micro_batch);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Posts> VerifyOrder(const v1::StageProgram& program, const PipelineShape& shape) {
  return ProgramWalk(program, shape).Walk();
}

}  // namespace stagecoach
