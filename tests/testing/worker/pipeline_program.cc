#include "tests/testing/worker/pipeline_program.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/memory_layout.h"
#include "common/skip_connections.h"

namespace stagecoach {
namespace {

constexpr uint32_t kSlots = 2;
constexpr uint64_t kRegionBytes = 64;
constexpr uint64_t kTieBytes = 16;

class ProgramBuilder {
 public:
  ProgramBuilder(const PipelineShape& shape, uint32_t stage)
      : shape_(shape),
        stage_(stage),
        is_first_(stage == 0),
        is_last_(stage + 1 == shape.num_stages),
        skips_(shape.num_skips > 0 && is_first_ != is_last_) {}

  v1::StageProgram Build() {
    program_.set_worker_rank(stage_);
    program_.set_num_micro_batches(shape_.num_micro_batches);
    program_.set_forward_only(shape_.forward_only);
    AddStage();
    if (!is_first_) forward_in_ = AddChannel(stage_ - 1, stage_, v1::CHANNEL_KIND_ACTIVATION);
    if (!is_last_) forward_out_ = AddChannel(stage_, stage_ + 1, v1::CHANNEL_KIND_ACTIVATION);
    if (skips_) skip_ = AddChannel(0, shape_.num_stages - 1, v1::CHANNEL_KIND_SKIP);
    for (uint32_t m = 0; m < shape_.num_micro_batches; ++m) AddForward(m);
    if (!shape_.forward_only) {
      if (!is_last_) backward_in_ = AddChannel(stage_ + 1, stage_, v1::CHANNEL_KIND_GRADIENT);
      if (!is_first_) backward_out_ = AddChannel(stage_, stage_ - 1, v1::CHANNEL_KIND_GRADIENT);
      if (skips_) skip_gradient_ = AddChannel(shape_.num_stages - 1, 0, v1::CHANNEL_KIND_SKIP_GRADIENT);
      for (uint32_t m = 0; m < shape_.num_micro_batches; ++m) AddBackward(m);
      if (shape_.tied && (is_first_ || is_last_)) AddTie();
      Add(v1::ACTION_KIND_GRADIENT_NORM, 0);
    }
    program_.set_arena_bytes(arena_bytes_);
    program_.set_content_hash(absl::StrCat(shape_.forward_only ? "evaluation" : "training", stage_));
    return program_;
  }

 private:
  void Place(v1::Slot* slot, uint64_t bytes) {
    slot->set_offset(arena_bytes_);
    slot->set_bytes(bytes);
    arena_bytes_ += AlignUp(bytes);
  }

  void AddStage() {
    v1::StageSlots* slots = program_.add_stages();
    slots->set_stage(stage_);
    slots->set_first_layer(stage_);
    slots->set_last_layer(stage_);
    for (uint32_t m = 0; m < shape_.num_micro_batches; ++m) {
      const uint64_t part = AlignUp(uint64_t{4} * shape_.micro_batch_size * shape_.seq_len);
      if (is_first_ || is_last_) Place(slots->add_load(), part * (is_first_ && is_last_ ? 2 : 1));
      Place(slots->add_saved(), kRegionBytes);
      Place(slots->add_shared(), kRegionBytes);
    }
    Place(slots->add_pending(), kRegionBytes);
    if (shape_.recomputes) {
      Place(slots->add_recomputed(), kRegionBytes);
      slots->add_recomputed_layers(stage_);
    }
    Place(program_.mutable_scratch(), kRegionBytes);
  }

  uint32_t AddChannel(uint32_t from, uint32_t to, v1::ChannelKind kind) {
    v1::ChannelSpec* spec = program_.add_channels();
    spec->set_from_stage(from);
    spec->set_to_stage(to);
    spec->set_from_worker_rank(from);
    spec->set_to_worker_rank(to);
    spec->set_kind(kind);
    spec->set_num_slots(kind == v1::CHANNEL_KIND_TIE ? 1 : kSlots);
    const bool is_skip = IsSkip(kind);
    for (uint32_t i = 0; is_skip && i < shape_.num_skips; ++i) spec->add_skip_connections(i);
    const uint64_t num_tensors = is_skip ? shape_.num_skips : 1;
    spec->set_bytes_per_sample(
        kind == v1::CHANNEL_KIND_TIE ? 0 : num_tensors * 4 * PipelineShape::kColumns * shape_.seq_len);
    spec->set_bytes(kind == v1::CHANNEL_KIND_TIE ? kTieBytes : spec->bytes_per_sample() * shape_.micro_batch_size);
    v1::ChannelSlots* slots = program_.add_channel_slots();
    for (uint32_t i = 0; i < spec->num_slots(); ++i) Place(slots->add_slots(), spec->bytes());
    return static_cast<uint32_t>(program_.channels_size() - 1);
  }

  v1::Instruction* Add(v1::ActionKind kind, uint32_t micro_batch) {
    v1::Instruction* instruction = program_.add_instructions();
    instruction->mutable_action()->set_kind(kind);
    instruction->mutable_action()->set_stage(stage_);
    instruction->mutable_action()->set_micro_batch(micro_batch);
    instruction->set_load_slot(-1);
    instruction->set_recv_slot(-1);
    instruction->set_send_slot(-1);
    instruction->set_saved_slot(-1);
    instruction->set_shared_slot(-1);
    instruction->set_pending_slot(-1);
    instruction->set_recomputed_slot(-1);
    return instruction;
  }
  void AddRecv(v1::ActionKind kind, uint32_t channel, uint32_t micro_batch, uint32_t slot) {
    v1::Instruction* instruction = Add(kind, micro_batch);
    instruction->set_channel(channel);
    instruction->set_sequence(micro_batch);
    instruction->set_recv_slot(static_cast<int32_t>(slot));
  }
  void AddSend(v1::ActionKind kind, uint32_t channel, uint32_t micro_batch, uint32_t slot) {
    v1::Instruction* instruction = Add(kind, micro_batch);
    instruction->set_channel(channel);
    instruction->set_sequence(micro_batch);
    instruction->set_send_slot(static_cast<int32_t>(slot));
  }

  static void SetSkip(v1::SkipSlot* skip, uint32_t channel, uint32_t micro_batch) {
    skip->set_channel(channel);
    skip->set_slot(static_cast<int32_t>(micro_batch % kSlots));
  }

  static void UseRecomputed(v1::Instruction& instruction) {
    instruction.set_pending_slot(0);
    instruction.set_recomputed_slot(0);
  }

  void AddForward(uint32_t m) {
    const auto slot = static_cast<int32_t>(m % kSlots);
    if (is_first_ || is_last_) Add(v1::ACTION_KIND_LOAD, m)->set_load_slot(static_cast<int32_t>(m));
    if (!is_first_) AddRecv(v1::ACTION_KIND_RECV_FORWARD, forward_in_, m, m % kSlots);
    if (skips_ && is_last_) AddRecv(v1::ACTION_KIND_RECV_FORWARD, skip_, m, m % kSlots);
    v1::Instruction* forward = Add(v1::ACTION_KIND_FORWARD, m);
    if (skips_) SetSkip(is_last_ ? forward->add_skip_recv() : forward->add_skip_send(), skip_, m);
    if (is_first_ || is_last_) forward->set_load_slot(static_cast<int32_t>(m));
    if (!is_first_) {
      forward->set_recv_slot(slot);
      forward->set_recv_channel(forward_in_);
    }
    if (!is_last_) {
      forward->set_send_slot(slot);
      forward->set_send_channel(forward_out_);
    }
    forward->set_saved_slot(static_cast<int32_t>(m));
    forward->set_shared_slot(static_cast<int32_t>(m));
    if (shape_.recomputes) UseRecomputed(*forward);
    if (!is_last_) AddSend(v1::ACTION_KIND_SEND_FORWARD, forward_out_, m, m % kSlots);
    if (skips_ && is_first_) AddSend(v1::ACTION_KIND_SEND_FORWARD, skip_, m, m % kSlots);
    if (is_last_) Add(v1::ACTION_KIND_LOSS, m);
  }

  void AddBackward(uint32_t m) {
    const auto slot = static_cast<int32_t>(m % kSlots);
    if (!is_last_) AddRecv(v1::ACTION_KIND_RECV_BACKWARD, backward_in_, m, m % kSlots);
    if (skips_ && is_first_) AddRecv(v1::ACTION_KIND_RECV_BACKWARD, skip_gradient_, m, m % kSlots);
    if (shape_.recomputes) {
      v1::Instruction* recomputation = Add(v1::ACTION_KIND_RECOMPUTE, m);
      recomputation->set_shared_slot(static_cast<int32_t>(m));
      UseRecomputed(*recomputation);
    }
    v1::Instruction* input = Add(v1::ACTION_KIND_BACKWARD_INPUT, m);
    if (skips_) SetSkip(is_last_ ? input->add_skip_send() : input->add_skip_recv(), skip_gradient_, m);
    if (shape_.recomputes) UseRecomputed(*input);
    if (!is_last_) {
      input->set_recv_slot(slot);
      input->set_recv_channel(backward_in_);
    }
    if (!is_first_) {
      input->set_send_slot(slot);
      input->set_send_channel(backward_out_);
    }
    input->set_saved_slot(static_cast<int32_t>(m));
    input->set_shared_slot(static_cast<int32_t>(m));
    input->set_pending_slot(0);
    if (!is_first_) AddSend(v1::ACTION_KIND_SEND_BACKWARD, backward_out_, m, m % kSlots);
    if (skips_ && is_last_) AddSend(v1::ACTION_KIND_SEND_BACKWARD, skip_gradient_, m, m % kSlots);
    v1::Instruction* weight = Add(v1::ACTION_KIND_BACKWARD_WEIGHT, m);
    weight->set_load_slot(is_last_ ? static_cast<int32_t>(m) : -1);
    weight->set_shared_slot(static_cast<int32_t>(m));
    weight->set_pending_slot(0);
  }

  void AddTie() {
    v1::Instruction* reduce = nullptr;
    if (is_first_ && is_last_) {
      Add(v1::ACTION_KIND_TIE_REDUCE, 0);
      return;
    }
    const uint32_t peer = is_first_ ? shape_.num_stages - 1 : 0;
    const uint32_t out = AddChannel(stage_, peer, v1::CHANNEL_KIND_TIE);
    const uint32_t in = AddChannel(peer, stage_, v1::CHANNEL_KIND_TIE);
    AddSend(v1::ACTION_KIND_SEND_TIE, out, 0, 0);
    AddRecv(v1::ACTION_KIND_RECV_TIE, in, 0, 0);
    reduce = Add(v1::ACTION_KIND_TIE_REDUCE, 0);
    reduce->set_recv_slot(0);
    reduce->set_recv_channel(in);
  }

  const PipelineShape shape_;
  const uint32_t stage_;
  const bool is_first_, is_last_, skips_;
  v1::StageProgram program_;
  uint64_t arena_bytes_ = 0;
  uint32_t forward_in_ = 0, forward_out_ = 0, backward_in_ = 0, backward_out_ = 0, skip_ = 0, skip_gradient_ = 0;
};

}  // namespace

v1::StageProgram PipelineProgram(const PipelineShape& shape, uint32_t stage) {
  return ProgramBuilder(shape, stage).Build();
}

v1::ModelGraph PipelineGraph(const PipelineShape& shape) {
  v1::ModelGraph graph;
  graph.set_micro_batch_size(shape.micro_batch_size);
  graph.set_seq_len(shape.seq_len);
  for (uint32_t stage = 0; stage < shape.num_stages; ++stage)
    graph.add_layers()->set_name(absl::StrCat("layer", stage));
  for (uint32_t i = 0; i < shape.num_skips; ++i) graph.add_skip_connections()->set_to_layer(shape.num_stages - 1);
  return graph;
}

}  // namespace stagecoach
