#include "coordinator/program/lowering_passes.h"

#include <utility>

#include "common/check.h"

namespace stagecoach {

uint32_t LoweringContext::StageOfLayer(uint32_t layer) const {
  uint32_t stage = 0;
  while (StageAt(stage).last_layer() < layer) ++stage;
  return stage;
}

v1::Instruction MakeInstruction(v1::ActionKind kind, uint32_t stage, uint32_t micro_batch) {
  constexpr int32_t kNone = -1;
  v1::Instruction instruction;
  instruction.mutable_action()->set_kind(kind);
  instruction.mutable_action()->set_stage(stage);
  instruction.mutable_action()->set_micro_batch(micro_batch);
  instruction.set_load_slot(kNone);
  instruction.set_recv_slot(kNone);
  instruction.set_send_slot(kNone);
  instruction.set_saved_slot(kNone);
  instruction.set_shared_slot(kNone);
  instruction.set_pending_slot(kNone);
  return instruction;
}

void RewriteInstructions(v1::StageProgram& program,
                         const std::function<void(v1::Instruction& instruction, const Emit& emit)>& rewrite) {
  google::protobuf::RepeatedPtrField<v1::Instruction> before;
  before.Swap(program.mutable_instructions());
  const Emit emit = [&program](const v1::Instruction& instruction) { *program.add_instructions() = instruction; };
  for (v1::Instruction& instruction : before) rewrite(instruction, emit);
}

uint32_t ChannelIndex(const v1::StageProgram& program, v1::ChannelKind kind, uint32_t from_stage) {
  int index = 0;
  while (index < program.channels_size() &&
         (program.channels(index).kind() != kind || program.channels(index).from_stage() != from_stage)) {
    ++index;
  }
  STAGECOACH_CHECK(index < program.channels_size());
  return static_cast<uint32_t>(index);
}

void ExpandTable(const LoweringContext& context, Programs& programs) {
  for (size_t worker = 0; worker < programs.size(); ++worker) {
    for (const v1::Action& action : context.table.workers(static_cast<int>(worker)).actions()) {
      const auto add = [&programs, &action, worker](v1::ActionKind kind) {
        *programs[worker].add_instructions() = MakeInstruction(kind, action.stage(), action.micro_batch());
      };
      if (action.kind() == v1::ACTION_KIND_BACKWARD) {
        add(v1::ACTION_KIND_BACKWARD_INPUT);
        add(v1::ACTION_KIND_BACKWARD_WEIGHT);
      } else {
        add(action.kind());
      }
    }
  }
}

void PlaceLoadsAndLosses(const LoweringContext& context, Programs& programs) {
  for (v1::StageProgram& program : programs) {
    RewriteInstructions(program, [&context](v1::Instruction& instruction, const Emit& emit) {
      const v1::Action& action = instruction.action();
      const bool is_forward = action.kind() == v1::ACTION_KIND_FORWARD;
      const bool is_last = context.IsLast(action.stage());
      if (is_forward && (action.stage() == 0 || is_last)) {
        emit(MakeInstruction(v1::ACTION_KIND_LOAD, action.stage(), action.micro_batch()));
      }
      emit(instruction);
      if (is_forward && is_last) {
        emit(MakeInstruction(v1::ACTION_KIND_LOSS, action.stage(), action.micro_batch()));
      }
    });
  }
}

namespace {

// Both uses on one stage need no transfer. Otherwise the lower stage sends first, so that the two sums are under way in
// one order everywhere.
void AppendTie(uint32_t stage, uint32_t lower, uint32_t upper, v1::StageProgram& program) {
  v1::Instruction reduce = MakeInstruction(v1::ACTION_KIND_TIE_REDUCE, stage, 0);
  if (lower != upper) {
    v1::Instruction send = MakeInstruction(v1::ACTION_KIND_SEND_TIE, stage, 0);
    send.set_channel(ChannelIndex(program, v1::CHANNEL_KIND_TIE, stage));
    send.set_send_slot(0);
    v1::Instruction recv = MakeInstruction(v1::ACTION_KIND_RECV_TIE, stage, 0);
    recv.set_channel(ChannelIndex(program, v1::CHANNEL_KIND_TIE, stage == lower ? upper : lower));
    recv.set_recv_slot(0);
    reduce.set_recv_channel(recv.channel());
    reduce.set_recv_slot(0);
    *program.add_instructions() = stage == lower ? send : recv;
    *program.add_instructions() = stage == lower ? recv : send;
  }
  *program.add_instructions() = reduce;
}

}  // namespace

void PlaceTiesAndNorms(const LoweringContext& context, Programs& programs) {
  if (context.forward_only) return;
  for (uint32_t stage = 0; stage < context.num_stages(); ++stage) {
    v1::StageProgram& program = programs[context.WorkerOf(stage)];
    if (context.tie.has_value()) {
      const uint32_t lower = context.StageOfLayer(context.tie->owner_layer);
      const uint32_t upper = context.StageOfLayer(context.tie->later_layer);
      if (stage == lower || stage == upper) AppendTie(stage, lower, upper, program);
    }
    *program.add_instructions() = MakeInstruction(v1::ACTION_KIND_GRADIENT_NORM, stage, 0);
  }
}

}  // namespace stagecoach
