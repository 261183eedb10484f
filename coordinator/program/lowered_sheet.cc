// ProgramsOfSheet of lowered_csv.h.

#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/memory_layout.h"
#include "common/status_macros.h"
#include "coordinator/program/lowered_csv.h"
#include "coordinator/program/lowering.h"
#include "coordinator/program/sheet_transfers.h"
#include "coordinator/program/slot_sizes.h"
#include "coordinator/program/uniform_model.h"

namespace stagecoach {
namespace {

// Everything has a slot of its own, and the slot's number is that of the micro-batch.
class SheetTranslation {
 public:
  SheetTranslation(const ActionSheet& sheet, const SheetShape& shape)
      : sheet_(sheet),
        shape_(shape),
        row_of_stage_(RowsOfStages(sheet, shape)),
        model_(MakeUniformModel(row_of_stage_, shape.num_micro_batches, {}, shape.recomputes)) {}

  std::vector<v1::StageProgram> Run() {
    for (uint32_t row = 0; row < sheet_.rows.size(); ++row) {
      v1::StageProgram& program = programs_.emplace_back();
      program.set_schedule("csv");
      program.set_worker_rank(row);
      program.set_num_micro_batches(shape_.num_micro_batches);
      program.set_forward_only(shape_.forward_only);
    }
    AddChannels();
    for (v1::StageProgram& program : programs_) Fill(program);
    return std::move(programs_);
  }

 private:
  using ChannelKey = std::tuple<uint32_t, v1::ChannelKind, uint32_t>;  // worker, kind, from stage

  bool IsLast(uint32_t stage) const { return stage + 1 == shape_.num_stages; }

  void AddChannels() {
    for (uint32_t lower = 0; lower + 1 < shape_.num_stages; ++lower) {
      AddChannel(v1::CHANNEL_KIND_ACTIVATION, lower, lower + 1);
      if (!shape_.forward_only) AddChannel(v1::CHANNEL_KIND_GRADIENT, lower + 1, lower);
    }
  }
  void AddChannel(v1::ChannelKind kind, uint32_t from, uint32_t to) {
    v1::ChannelSpec channel;
    channel.set_kind(kind);
    channel.set_from_stage(from);
    channel.set_to_stage(to);
    channel.set_from_worker_rank(row_of_stage_[from]);
    channel.set_to_worker_rank(row_of_stage_[to]);
    channel.set_num_slots(shape_.num_micro_batches);
    channel.set_bytes(model_.graph.layers(0).cost().output_bytes());
    channel.set_bytes_per_sample(channel.bytes());
    for (const uint32_t worker : {row_of_stage_[from], row_of_stage_[to]}) {
      const ChannelKey key = {worker, kind, from};
      if (!channels_.try_emplace(key, programs_[worker].channels_size()).second) continue;  // both ends are here
      *programs_[worker].add_channels() = channel;
    }
  }
  uint32_t Channel(uint32_t worker, v1::ChannelKind kind, uint32_t from) const {
    return static_cast<uint32_t>(channels_.at({worker, kind, from}));
  }

  void Fill(v1::StageProgram& program) {
    for (const v1::ChannelSpec& channel : program.channels()) {
      AddSlots(channel.bytes(), program, *program.add_channel_slots()->mutable_slots());
    }
    for (uint32_t stage = 0; stage < shape_.num_stages; ++stage) {
      if (row_of_stage_[stage] == program.worker_rank()) AddStage(stage, program);
    }
    next_sequence_.assign(static_cast<size_t>(program.channels_size()), 0);
    for (const SheetCell& cell : sheet_.rows[program.worker_rank()]) {
      if (cell.sharding == ShardingKind::kNone) AddCell(cell.action, program);
    }
    for (const v1::StageSlots& stage : program.stages()) {
      if (!shape_.forward_only) Add(v1::ACTION_KIND_GRADIENT_NORM, stage.stage(), 0, program);
    }
    program.set_content_hash(ContentHash(program));
  }

  void AddSlots(uint64_t bytes, v1::StageProgram& program, google::protobuf::RepeatedPtrField<v1::Slot>& slots) const {
    for (uint32_t i = 0; i < shape_.num_micro_batches; ++i) *slots.Add() = TakeSlot(bytes, program);
  }
  static v1::Slot TakeSlot(uint64_t bytes, v1::StageProgram& program) {
    v1::Slot slot;
    slot.set_offset(program.arena_bytes());
    slot.set_bytes(AlignUp(bytes));
    program.set_arena_bytes(slot.offset() + slot.bytes());
    return slot;
  }

  void AddStage(uint32_t stage, v1::StageProgram& program) const {
    const SlotSizes sizes =
        SlotSizesOf(model_.graph, LayersOf(model_.plan.stages(static_cast<int>(stage))), shape_.forward_only);
    v1::StageSlots& slots = *program.add_stages();
    slots.set_stage(stage);
    slots.set_first_layer(stage);
    slots.set_last_layer(stage);
    if (stage == 0 || IsLast(stage)) AddSlots(sizes.load, program, *slots.mutable_load());
    AddSlots(sizes.saved, program, *slots.mutable_saved());
    AddSlots(sizes.shared, program, *slots.mutable_shared());
    if (!shape_.forward_only) AddSlots(sizes.pending, program, *slots.mutable_pending());
    if (shape_.recomputes[stage]) {
      AddSlots(sizes.recomputed, program, *slots.mutable_recomputed());
      slots.add_recomputed_layers(stage);
    }
    if (!program.has_scratch()) *program.mutable_scratch() = TakeSlot(sizes.scratch, program);
  }

  static v1::Instruction& Add(v1::ActionKind kind, uint32_t stage, uint32_t micro_batch, v1::StageProgram& program) {
    constexpr int32_t kNone = -1;
    v1::Instruction& instruction = *program.add_instructions();
    instruction.mutable_action()->set_kind(kind);
    instruction.mutable_action()->set_stage(stage);
    instruction.mutable_action()->set_micro_batch(micro_batch);
    instruction.set_load_slot(kNone);
    instruction.set_recv_slot(kNone);
    instruction.set_send_slot(kNone);
    instruction.set_saved_slot(kNone);
    instruction.set_shared_slot(kNone);
    instruction.set_pending_slot(kNone);
    instruction.set_recomputed_slot(kNone);
    return instruction;
  }

  void AddCell(const v1::Action& action, v1::StageProgram& program) {
    switch (action.kind()) {
      case v1::ACTION_KIND_FORWARD:
        return AddForward(action, program);
      case v1::ACTION_KIND_BACKWARD:
        AddBackwardInput(action, program);
        return AddBackwardWeight(action, program);
      case v1::ACTION_KIND_BACKWARD_INPUT:
        return AddBackwardInput(action, program);
      case v1::ACTION_KIND_BACKWARD_WEIGHT:
        return AddBackwardWeight(action, program);
      case v1::ACTION_KIND_RECOMPUTE:
        return AddRecomputation(action, program);
      default:
        return AddPost(action, program);
    }
  }

  void AddForward(const v1::Action& action, v1::StageProgram& program) const {
    const uint32_t stage = action.stage();
    const auto slot = static_cast<int32_t>(action.micro_batch());
    const bool loads = stage == 0 || IsLast(stage);
    if (loads) Add(v1::ACTION_KIND_LOAD, stage, action.micro_batch(), program).set_load_slot(slot);
    v1::Instruction& forward = Add(action.kind(), stage, action.micro_batch(), program);
    if (loads) forward.set_load_slot(slot);
    forward.set_saved_slot(slot);
    forward.set_shared_slot(slot);
    if (shape_.recomputes[stage]) UsesRecomputed(forward);
    if (stage > 0) Reads(v1::CHANNEL_KIND_ACTIVATION, stage - 1, program, forward);
    if (!IsLast(stage)) Writes(v1::CHANNEL_KIND_ACTIVATION, program, forward);
    if (IsLast(stage)) Add(v1::ACTION_KIND_LOSS, stage, action.micro_batch(), program);
  }
  void AddBackwardInput(const v1::Action& action, v1::StageProgram& program) const {
    const auto slot = static_cast<int32_t>(action.micro_batch());
    v1::Instruction& input = Add(v1::ACTION_KIND_BACKWARD_INPUT, action.stage(), action.micro_batch(), program);
    input.set_saved_slot(slot);
    input.set_shared_slot(slot);
    input.set_pending_slot(slot);
    if (shape_.recomputes[action.stage()]) UsesRecomputed(input);
    if (!IsLast(action.stage())) Reads(v1::CHANNEL_KIND_GRADIENT, action.stage() + 1, program, input);
    if (action.stage() > 0) Writes(v1::CHANNEL_KIND_GRADIENT, program, input);
  }
  void AddBackwardWeight(const v1::Action& action, v1::StageProgram& program) const {
    const auto slot = static_cast<int32_t>(action.micro_batch());
    v1::Instruction& weight = Add(v1::ACTION_KIND_BACKWARD_WEIGHT, action.stage(), action.micro_batch(), program);
    weight.set_shared_slot(slot);
    weight.set_pending_slot(slot);
    if (IsLast(action.stage())) weight.set_load_slot(slot);
  }
  void AddRecomputation(const v1::Action& action, v1::StageProgram& program) const {
    v1::Instruction& recomputation = Add(action.kind(), action.stage(), action.micro_batch(), program);
    recomputation.set_shared_slot(static_cast<int32_t>(action.micro_batch()));
    UsesRecomputed(recomputation);
  }
  static void UsesRecomputed(v1::Instruction& instruction) {
    const auto slot = static_cast<int32_t>(instruction.action().micro_batch());
    instruction.set_pending_slot(slot);
    instruction.set_recomputed_slot(slot);
  }
  void AddPost(const v1::Action& action, v1::StageProgram& program) {
    const bool is_forward =
        action.kind() == v1::ACTION_KIND_SEND_FORWARD || action.kind() == v1::ACTION_KIND_RECV_FORWARD;
    const bool is_send =
        action.kind() == v1::ACTION_KIND_SEND_FORWARD || action.kind() == v1::ACTION_KIND_SEND_BACKWARD;
    const v1::ChannelKind kind = is_forward ? v1::CHANNEL_KIND_ACTIVATION : v1::CHANNEL_KIND_GRADIENT;
    uint32_t from = action.stage();
    if (!is_send) from = is_forward ? action.stage() - 1 : action.stage() + 1;
    v1::Instruction& post = Add(action.kind(), action.stage(), action.micro_batch(), program);
    post.set_channel(Channel(program.worker_rank(), kind, from));
    post.set_sequence(next_sequence_[post.channel()]++);
    const auto slot = static_cast<int32_t>(action.micro_batch());
    is_send ? post.set_send_slot(slot) : post.set_recv_slot(slot);
  }

  void Reads(v1::ChannelKind kind, uint32_t from, const v1::StageProgram& program, v1::Instruction& reader) const {
    reader.set_recv_channel(Channel(program.worker_rank(), kind, from));
    reader.set_recv_slot(static_cast<int32_t>(reader.action().micro_batch()));
  }
  void Writes(v1::ChannelKind kind, const v1::StageProgram& program, v1::Instruction& writer) const {
    writer.set_send_channel(Channel(program.worker_rank(), kind, writer.action().stage()));
    writer.set_send_slot(static_cast<int32_t>(writer.action().micro_batch()));
  }

  const ActionSheet& sheet_;
  const SheetShape& shape_;
  const std::vector<uint32_t> row_of_stage_;
  const PlannedModel model_;
  std::map<ChannelKey, int> channels_;  // index in the worker's program
  std::vector<v1::StageProgram> programs_;
  std::vector<uint64_t> next_sequence_;  // by channel of the program that is being filled
};

}  // namespace

absl::StatusOr<std::vector<v1::StageProgram>> ProgramsOfSheet(const ActionSheet& sheet) {
  STAGECOACH_ASSIGN_OR_RETURN(const SheetShape shape, CheckComputeActions(sheet));
  if (uint64_t{shape.num_stages} * shape.num_micro_batches > kMaxLoweredForwards) {
    return absl::InvalidArgumentError(absl::StrCat(shape.num_stages, " stages x ", shape.num_micro_batches,
                                                   " micro-batches is more than ", kMaxLoweredForwards));
  }
  STAGECOACH_RETURN_IF_ERROR(CheckTransfers(sheet, shape));
  STAGECOACH_RETURN_IF_ERROR(CheckSharding(sheet, shape));
  return SheetTranslation(sheet, shape).Run();
}

}  // namespace stagecoach
