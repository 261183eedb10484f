// The pass that writes the instructions of every worker: the actions of its row with the loads, losses, posts, ties and
// norms around them.

#include "coordinator/program/lowering_passes.h"

#include <algorithm>
#include <cstddef>

namespace stagecoach {
namespace {

constexpr int32_t kNone = -1;

// An instruction without slots.
v1::Instruction& Append(v1::ActionKind kind, uint32_t stage, uint32_t micro_batch, v1::StageProgram& program) {
  v1::Instruction& instruction = *program.add_instructions();
  v1::Action& action = *instruction.mutable_action();
  action.set_kind(kind);
  action.set_stage(stage);
  action.set_micro_batch(micro_batch);
  instruction.set_load_slot(kNone);
  instruction.set_recv_slot(kNone);
  instruction.set_send_slot(kNone);
  instruction.set_saved_slot(kNone);
  instruction.set_shared_slot(kNone);
  instruction.set_pending_slot(kNone);
  instruction.set_recomputed_slot(kNone);
  return instruction;
}

// The instructions of one worker.
class ProgramWriter {
 public:
  ProgramWriter(const LoweringContext& context, ChannelPlans& plans, v1::StageProgram& program)
      : context_(context), plans_(plans), program_(program), next_sequence_(plans.channels.size()) {}

  void Write() {
    CollectReceives();
    const v1::WorkerActions& row = context_.RowOf(program_.worker_rank());
    size_t next_receive = 0;
    for (int i = 0; i < row.actions_size(); ++i) {
      for (; next_receive < receives_.size() && receives_[next_receive].before <= static_cast<uint32_t>(i);
           ++next_receive) {
        WriteReceive(receives_[next_receive]);
      }
      WriteAction(row.actions(i));
    }
    if (context_.forward_only) return;
    for (uint32_t stage = 0; stage < context_.num_stages(); ++stage) WriteTie(stage);
    for (uint32_t stage = 0; stage < context_.num_stages(); ++stage) WriteNorm(stage);
  }

 private:
  struct Receive {
    uint32_t before = 0;  // index in the row
    const ChannelPlan* channel = nullptr;
    uint32_t n = 0;
  };

  bool IsHere(uint32_t stage) const { return context_.WorkerOf(stage) == program_.worker_rank(); }
  bool IsTied(uint32_t stage) const {
    return plans_.has_tie && (stage == plans_.Tie(true).spec.from_stage() || stage == plans_.Tie(true).spec.to_stage());
  }

  void CollectReceives() {
    for (const ChannelPlan& channel : plans_.channels) {
      if (channel.is_local() || channel.spec.to_worker_rank() != program_.worker_rank()) continue;
      for (uint32_t n = 0; n < channel.post_before.size(); ++n) {
        receives_.push_back({channel.post_before[n], &channel, n});
      }
    }
    std::stable_sort(receives_.begin(), receives_.end(),
                     [](const Receive& a, const Receive& b) { return a.before < b.before; });
  }

  void WriteReceive(const Receive& receive) {
    const v1::ChannelSpec& spec = receive.channel->spec;
    const v1::ActionKind kind = IsForward(spec.kind()) ? v1::ACTION_KIND_RECV_FORWARD : v1::ACTION_KIND_RECV_BACKWARD;
    v1::Instruction& instruction = Append(kind, spec.to_stage(), receive.channel->order[receive.n], program_);
    instruction.set_channel(receive.channel->index_at_receiver);
    instruction.set_sequence(receive.n);
  }

  void WriteAction(const v1::Action& action) {
    const uint32_t stage = action.stage();
    const bool is_forward = action.kind() == v1::ACTION_KIND_FORWARD;
    const bool is_input = action.kind() == v1::ACTION_KIND_BACKWARD_INPUT;
    const bool is_last = context_.IsLast(stage);
    if (is_forward && (stage == 0 || is_last)) Append(v1::ACTION_KIND_LOAD, stage, action.micro_batch(), program_);
    v1::Instruction& instruction = Append(action.kind(), stage, action.micro_batch(), program_);
    if (is_forward && stage > 0) instruction.set_recv_channel(plans_.Activation(stage - 1).index_at_receiver);
    if (is_input && !is_last) instruction.set_recv_channel(plans_.Gradient(stage).index_at_receiver);
    const SkipEnds& skips = plans_.SkipsOf(action);
    for (const size_t index : skips.recv) {
      AddSkip(plans_.channels[index].index_at_receiver, *instruction.add_skip_recv());
    }
    if (is_forward && !is_last) WriteSend(plans_.Activation(stage), instruction);
    if (is_input && context_.SendsGradient(stage)) WriteSend(plans_.Gradient(stage - 1), instruction);
    for (const size_t index : skips.send) {
      AddSkip(plans_.channels[index].index_at_sender, *instruction.add_skip_send());
      PostSend(plans_.channels[index], action);
    }
    if (is_forward && is_last) Append(v1::ACTION_KIND_LOSS, stage, action.micro_batch(), program_);
  }

  static void AddSkip(uint32_t channel, v1::SkipSlot& skip) {
    skip.set_channel(channel);
    skip.set_slot(kNone);
  }

  void WriteSend(const ChannelPlan& channel, v1::Instruction& producer) {
    producer.set_send_channel(channel.index_at_sender);
    PostSend(channel, producer.action());
  }

  void PostSend(const ChannelPlan& channel, const v1::Action& action) {
    if (channel.is_local()) return;
    const v1::ActionKind kind =
        IsForward(channel.spec.kind()) ? v1::ACTION_KIND_SEND_FORWARD : v1::ACTION_KIND_SEND_BACKWARD;
    v1::Instruction& send = Append(kind, action.stage(), action.micro_batch(), program_);
    send.set_channel(channel.index_at_sender);
    send.set_sequence(next_sequence_[static_cast<size_t>(&channel - plans_.channels.data())]++);
  }

  // The lower stage sends first, so that the two sums are under way in one order everywhere. Where both stages are on
  // this worker each hands its sum over before either changes its own.
  void WriteTie(uint32_t stage) {
    if (!IsHere(stage) || !IsTied(stage)) return;
    const bool is_lower = stage == plans_.Tie(true).spec.from_stage();
    const ChannelPlan& to_other = plans_.Tie(is_lower);
    const ChannelPlan& from_other = plans_.Tie(!is_lower);
    const auto receive = [&] {
      if (from_other.is_local()) return;
      Append(v1::ACTION_KIND_RECV_TIE, stage, 0, program_).set_channel(from_other.index_at_receiver);
    };
    if (!is_lower) receive();
    Append(v1::ACTION_KIND_SEND_TIE, stage, 0, program_).set_channel(to_other.index_at_sender);
    if (is_lower) receive();
  }

  void WriteNorm(uint32_t stage) {
    if (!IsHere(stage)) return;
    if (IsTied(stage)) {
      const bool is_lower = stage == plans_.Tie(true).spec.from_stage();
      Append(v1::ACTION_KIND_TIE_REDUCE, stage, 0, program_).set_recv_channel(plans_.Tie(!is_lower).index_at_receiver);
    } else if (HasBothUses(stage)) {
      Append(v1::ACTION_KIND_TIE_REDUCE, stage, 0, program_);
    }
    Append(v1::ACTION_KIND_GRADIENT_NORM, stage, 0, program_);
  }
  bool HasBothUses(uint32_t stage) const {
    return context_.tie.has_value() && !plans_.has_tie && context_.StageOfLayer(context_.tie->owner_layer) == stage;
  }

  const LoweringContext& context_;
  ChannelPlans& plans_;
  v1::StageProgram& program_;
  std::vector<Receive> receives_;
  std::vector<uint64_t> next_sequence_;  // by channel plan
};

}  // namespace

uint32_t LoweringContext::StageOfLayer(uint32_t layer) const {
  uint32_t stage = 0;
  while (StageAt(stage).last_layer() < layer) ++stage;
  return stage;
}

Programs EmitPrograms(const LoweringContext& context, ChannelPlans& channels) {
  Programs programs(static_cast<size_t>(context.table.workers_size()));
  for (size_t worker = 0; worker < programs.size(); ++worker) {
    programs[worker].set_schedule(context.table.schedule());
    programs[worker].set_worker_rank(static_cast<uint32_t>(worker));
    programs[worker].set_num_micro_batches(context.table.num_micro_batches());
    programs[worker].set_forward_only(context.forward_only);
  }
  for (const ChannelPlan& channel : channels.channels) {
    *programs[channel.spec.from_worker_rank()].add_channels() = channel.spec;
    if (!channel.is_local()) *programs[channel.spec.to_worker_rank()].add_channels() = channel.spec;
  }
  for (v1::StageProgram& program : programs) ProgramWriter(context, channels, program).Write();
  return programs;
}

}  // namespace stagecoach
