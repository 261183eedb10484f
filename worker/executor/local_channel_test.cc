// Several stages on one worker: they hand over through channels that no transport carries.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/worker/executor_harness.h"
#include "worker/executor/executor.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;

bool IsTransfer(v1::ActionKind kind) {
  return kind == v1::ACTION_KIND_SEND_FORWARD || kind == v1::ACTION_KIND_RECV_FORWARD ||
         kind == v1::ACTION_KIND_SEND_BACKWARD || kind == v1::ACTION_KIND_RECV_BACKWARD ||
         kind == v1::ACTION_KIND_RECV_TIE;
}

// The programs of a pipeline of one stage per worker as one program of one worker: each micro-batch goes down all
// stages, then up again.
class MergedProgram {
 public:
  explicit MergedProgram(const PipelineShape& shape) : shape_(shape) {
    for (uint32_t stage = 0; stage < shape.num_stages; ++stage) AddStage(PipelineProgram(shape, stage));
    for (uint32_t m = 0; m < shape.num_micro_batches; ++m) {
      for (uint32_t stage = 0; stage < shape.num_stages; ++stage) {
        AddInstructions(stage, m, {v1::ACTION_KIND_LOAD, v1::ACTION_KIND_FORWARD, v1::ACTION_KIND_LOSS});
      }
    }
    for (uint32_t m = 0; m < shape.num_micro_batches; ++m) {
      for (uint32_t stage = shape.num_stages; stage > 0; --stage) {
        AddInstructions(stage - 1, m, {v1::ACTION_KIND_BACKWARD_INPUT, v1::ACTION_KIND_BACKWARD_WEIGHT});
      }
    }
    for (const v1::ActionKind kind :
         {v1::ACTION_KIND_SEND_TIE, v1::ACTION_KIND_TIE_REDUCE, v1::ACTION_KIND_GRADIENT_NORM}) {
      for (uint32_t stage = 0; stage < shape.num_stages; ++stage) AddInstructions(stage, 0, {kind});
    }
  }

  v1::StageProgram program;

 private:
  void AddStage(const v1::StageProgram& part) {
    parts_.push_back(part);
    program.set_num_micro_batches(part.num_micro_batches());
    v1::StageSlots& slots = *program.add_stages();
    slots = part.stages(0);
    const uint64_t shift = program.arena_bytes();
    for (auto* list : {slots.mutable_load(), slots.mutable_saved(), slots.mutable_shared(), slots.mutable_pending()}) {
      for (v1::Slot& slot : *list) slot.set_offset(slot.offset() + shift);
    }
    *program.mutable_scratch() = part.scratch();
    std::vector<uint32_t>& numbers = numbers_.emplace_back();
    for (int i = 0; i < part.channels_size(); ++i) numbers.push_back(NumberOf(part, i, shift));
    program.set_arena_bytes(shift + part.arena_bytes());
  }

  uint32_t NumberOf(const v1::StageProgram& part, int channel, uint64_t shift) {
    v1::ChannelSpec spec = part.channels(channel);
    spec.set_from_worker_rank(0);
    spec.set_to_worker_rank(0);
    for (int i = 0; i < program.channels_size(); ++i) {
      if (program.channels(i).SerializeAsString() == spec.SerializeAsString()) return static_cast<uint32_t>(i);
    }
    *program.add_channels() = spec;
    v1::ChannelSlots& slots = *program.add_channel_slots();
    slots = part.channel_slots(channel);
    for (v1::Slot& slot : *slots.mutable_slots()) slot.set_offset(slot.offset() + shift);
    return static_cast<uint32_t>(program.channels_size() - 1);
  }

  void AddInstructions(uint32_t stage, uint32_t micro_batch, const std::vector<v1::ActionKind>& kinds) {
    for (const v1::Instruction& instruction : parts_[stage].instructions()) {
      const v1::ActionKind kind = instruction.action().kind();
      if (IsTransfer(kind) || instruction.action().micro_batch() != micro_batch ||
          std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
        continue;
      }
      v1::Instruction& added = *program.add_instructions();
      added = instruction;
      if (kind == v1::ACTION_KIND_SEND_TIE) added.set_channel(numbers_[stage][instruction.channel()]);
      if (instruction.recv_slot() >= 0) added.set_recv_channel(numbers_[stage][instruction.recv_channel()]);
      const bool writes = instruction.send_slot() >= 0 && kind != v1::ACTION_KIND_SEND_TIE;
      if (writes) added.set_send_channel(numbers_[stage][instruction.send_channel()]);
      for (auto* skips : {added.mutable_skip_recv(), added.mutable_skip_send()}) {
        for (v1::SkipSlot& skip : *skips) skip.set_channel(numbers_[stage][skip.channel()]);
      }
    }
  }

  const PipelineShape shape_;
  std::vector<v1::StageProgram> parts_;
  std::vector<std::vector<uint32_t>> numbers_;  // by stage and channel of its part
};

// One worker with all stages.
class OneWorker {
 public:
  OneWorker(const PipelineShape& shape, const v1::StageProgram& program, bool asynchronous = false)
      : shape_(shape), device_(asynchronous), program_(program) {
    stream_ = *device_.CreateStream();
    arena_ = *device_.Allocate(program.arena_bytes(), MemoryKind::kDevice);
    for (uint32_t stage = 0; stage < shape.num_stages; ++stage) {
      const bool tied = shape.tied && (stage == 0 || stage + 1 == shape.num_stages);
      states.push_back(std::make_unique<FakeStageState>(FakeStageState::Options{
          .name = absl::StrCat("w", stage), .tied = tied, .on_update = nullptr, .on_digest = nullptr}));
      stages.push_back(std::make_unique<FakeStage>(*states.back(), FakeStage::Options()));
    }
  }

  absl::StatusOr<std::unique_ptr<Executor>> Create(std::vector<Channel*> channels) {
    Executor::Collaborators collaborators{.device = device_,
                                          .stream = *stream_,
                                          .data = data_,
                                          .stages = {},
                                          .states = {},
                                          .channels = std::move(channels),
                                          .arena = {arena_->data(), arena_->bytes()},
                                          .micro_batch_size = shape_.micro_batch_size,
                                          .seq_len = shape_.seq_len};
    for (const auto& stage : stages) collaborators.stages.push_back(stage.get());
    for (const auto& state : states) collaborators.states.push_back(state.get());
    return Executor::Create(program_, std::move(collaborators));
  }
  absl::StatusOr<std::unique_ptr<Executor>> Create() {
    return Create(std::vector<Channel*>(static_cast<size_t>(program_.channels_size())));
  }

  std::vector<std::unique_ptr<FakeStageState>> states;
  std::vector<std::unique_ptr<FakeStage>> stages;

 private:
  const PipelineShape shape_;
  FakeDevice device_;
  FakeBatchSource data_{true};
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Memory> arena_;
  const v1::StageProgram program_;
};

void ExpectSameAsApart(const PipelineShape& shape, bool asynchronous) {
  ExecutorHarness apart(shape);

  const v1::RunStep order = apart.Order(1, 5, {2, 1, 2});
  const auto reports = apart.RunAll(order);
  for (const auto& report : reports) ASSERT_TRUE(report.ok()) << report.status();

  const MergedProgram merged(shape);
  OneWorker worker(shape, merged.program, asynchronous);
  const auto executor = worker.Create();
  ASSERT_TRUE(executor.ok()) << executor.status();
  const absl::StatusOr<const RunReport*> report = (*executor)->Run(order);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ((*report)->loss_parts.size(), 3u);
  for (size_t m = 0; m < 3; ++m) {
    EXPECT_EQ((*report)->loss_parts[m].value, (*reports.back())->loss_parts[m].value);
  }
  ASSERT_EQ((*report)->squared_norms.size(), shape.num_stages);
  for (uint32_t stage = 0; stage < shape.num_stages; ++stage) {
    EXPECT_EQ(worker.states[stage]->gradient, apart.worker(stage).state->gradient) << "stage " << stage;
    EXPECT_EQ((*report)->squared_norms[stage].squared_norm, (*reports[stage])->squared_norms[0].squared_norm);
  }
  EXPECT_TRUE((*report)->traffic.empty());
}

TEST(LocalChannelTest, StagesOfOneWorkerComputeWhatTheyComputeApart) {
  for (const bool tied : {false, true}) {
    for (const bool asynchronous : {false, true}) {
      SCOPED_TRACE(absl::StrCat("tied ", tied, ", asynchronous ", asynchronous));
      ExpectSameAsApart({.num_stages = 3, .num_micro_batches = 3, .tied = tied}, asynchronous);
    }
  }
}

TEST(LocalChannelTest, SkipConnectionsWithinAWorkerNeedNoPosts) {
  for (const uint32_t num_stages : {2u, 3u}) {
    for (const bool asynchronous : {false, true}) {
      SCOPED_TRACE(absl::StrCat(num_stages, " stages, asynchronous ", asynchronous));
      ExpectSameAsApart({.num_stages = num_stages, .num_micro_batches = 3, .num_skips = 2}, asynchronous);
    }
  }
}

TEST(LocalChannelTest, ASkipEdgeLeadsOneWay) {
  const PipelineShape shape{.num_stages = 3, .num_micro_batches = 1, .num_skips = 1};
  v1::StageProgram program = MergedProgram(shape).program;
  v1::Instruction& forward = *program.mutable_instructions(1);
  ASSERT_EQ(forward.skip_send_size(), 1);
  *forward.mutable_skip_recv() = forward.skip_send();
  const auto executor = OneWorker(shape, program).Create();
  EXPECT_EQ(executor.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(executor.status().message()),
              HasSubstr("0F0: it reads channel 1 as a skip edge, which is from"));
}

TEST(LocalChannelTest, PostsWithinAWorkerAreRefused) {
  const PipelineShape shape{.num_stages = 2, .num_micro_batches = 1};
  v1::StageProgram program = MergedProgram(shape).program;
  v1::Instruction& post = *program.add_instructions();
  post = program.instructions(1);
  post.mutable_action()->set_kind(v1::ACTION_KIND_SEND_FORWARD);
  post.set_channel(program.instructions(1).send_channel());
  const auto executor = OneWorker(shape, program).Create();
  EXPECT_EQ(executor.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(executor.status().message()), HasSubstr("posts a transfer within this worker"));
}

TEST(LocalChannelTest, OnlyChannelsToOtherWorkersNeedATransport) {
  const PipelineShape shape{.num_stages = 2, .num_micro_batches = 1};
  ExecutorHarness apart(shape);
  ExecutorHarness::Worker& worker = apart.worker(0);
  v1::StageProgram program = MergedProgram(shape).program;
  std::vector<Channel*> channels(static_cast<size_t>(program.channels_size()));
  channels[0] = worker.channels.begin()->second.get();
  EXPECT_THAT(std::string(OneWorker(shape, program).Create(channels).status().message()),
              HasSubstr("needs no transport"));
  program.mutable_channels(0)->set_to_worker_rank(1);
  channels[0] = nullptr;
  EXPECT_THAT(std::string(OneWorker(shape, program).Create(channels).status().message()),
              HasSubstr("channel 0 needs a transport"));
}

}  // namespace
}  // namespace stagecoach
