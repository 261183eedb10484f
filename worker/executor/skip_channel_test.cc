// Skip edges: from a stage to a later one past those between, and gradients back.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/action_text.h"
#include "common/named_thread.h"
#include "tests/testing/worker/executor_harness.h"
#include "worker/executor/executor.h"
#include "worker/executor/prepared_program.h"
#include "worker/executor/trace_ring.h"
#include "worker/transport/transfer_tag.h"

namespace stagecoach {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const FakeStage::Call& CallOf(ExecutorHarness& harness, uint32_t rank, const std::string& text) {
  const std::vector<FakeStage::Call>& calls = harness.worker(rank).stage->calls;
  return *std::find_if(calls.begin(), calls.end(), [&](const FakeStage::Call& call) { return call.text == text; });
}

std::vector<std::string> KindsOf(const v1::StageProgram& program, const std::vector<Traffic>& traffic) {
  std::vector<std::string> kinds;
  for (const Traffic& end : traffic) {
    kinds.push_back(absl::StrCat(end.sent ? "sent " : "received ",
                                 ChannelKindText(program.channels(static_cast<int>(end.channel)).kind())));
  }
  return kinds;
}

TEST(SkipChannelTest, TensorsGoPastAStageAndGradientsBack) {
  for (const bool asynchronous : {false, true}) {
    ExecutorHarness harness({.num_stages = 3, .num_micro_batches = 3, .num_skips = 2}, {.asynchronous = asynchronous});
    const auto reports = harness.RunAll(harness.Order(1, 10, {2, 0, 1}));
    for (const auto& report : reports) ASSERT_TRUE(report.ok()) << report.status();
    // Sample s has tokens s, of which the first stage makes s + 1. Over connection 0 goes that, over connection 1 one
    // more: of a ragged micro-batch the second tensor lies right behind the first.
    std::vector<float> expected;
    for (const float value : {11.f, 12.f, 12.f, 13.f}) expected.insert(expected.end(), 8, value);
    EXPECT_EQ(CallOf(harness, 2, "F0").skips_read, expected);
    EXPECT_THAT(CallOf(harness, 2, "F1").skips_read, IsEmpty());
    expected.clear();
    for (const float value : {13.f, 14.f}) expected.insert(expected.end(), 8, value);
    EXPECT_EQ(CallOf(harness, 2, "F2").skips_read, expected);
    // 8 elements of each sample: two stages add 1 to it, the labels are 1000 + s.
    EXPECT_FLOAT_EQ(static_cast<float>((*reports[2])->loss_parts[2].value), (8 * (12 + 2 + 13 + 14) + 4 * 1012) / 3.f);
    EXPECT_THAT(CallOf(harness, 1, "F0").skips_read, IsEmpty());
    // The last stage makes twice the loss weight.
    const float gradient = 2.f / 3;
    const std::vector<float>& back = CallOf(harness, 0, "I2").skips_read;
    ASSERT_EQ(back.size(), 16u);
    EXPECT_THAT(std::vector<float>(back.begin(), back.begin() + 8), Each(gradient));
    EXPECT_THAT(std::vector<float>(back.begin() + 8, back.end()), Each(gradient + 1));
  }
}

TEST(SkipChannelTest, NeighboursHaveOneBesidesTheirOrdinaryEdge) {
  ExecutorHarness harness({.num_stages = 2, .num_micro_batches = 3, .num_skips = 1});
  for (uint64_t step = 1; step <= 2; ++step) {
    const auto reports = harness.RunAll(harness.Order(step, 0, {2, 2, 1}));
    for (const auto& report : reports) ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(CallOf(harness, 1, "F2").skips_read, std::vector<float>(8, 5));
    EXPECT_THAT(KindsOf(harness.worker(0).program, (*reports[0])->traffic),
                ElementsAre("sent activation", "sent skip", "received gradient", "received skip_gradient"));
    EXPECT_THAT(KindsOf(harness.worker(1).program, (*reports[1])->traffic),
                ElementsAre("sent gradient", "sent skip_gradient", "received activation", "received skip"));
  }
}

TEST(SkipChannelTest, TrafficIsToldApartByChannel) {
  ExecutorHarness harness({.num_stages = 3, .num_micro_batches = 2, .num_skips = 2});
  const auto reports = harness.RunAll(harness.Order(1, 0, {2, 1}));
  for (const auto& report : reports) ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ((*reports[1])->traffic.size(), 4u);
  for (const uint32_t rank : {0u, 2u}) {
    ASSERT_EQ((*reports[rank])->traffic.size(), 4u);
    for (const Traffic& end : (*reports[rank])->traffic) {
      const v1::ChannelSpec& channel = harness.worker(rank).program.channels(static_cast<int>(end.channel));
      const uint64_t num_tensors = channel.skip_connections().empty() ? 1 : 2;
      EXPECT_EQ(end.bytes, 3 * 4 * 4 * PipelineShape::kColumns * num_tensors);
      EXPECT_EQ(end.sent, channel.from_stage() == rank);
    }
  }
  std::vector<uint8_t> kinds;
  const RecordedRun run = *harness.worker(2).trace.Copy(0);
  for (const TransferRecord& record : run.transfers) kinds.push_back(record.kind);
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), v1::CHANNEL_KIND_SKIP), 2);
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), v1::CHANNEL_KIND_SKIP_GRADIENT), 2);
}

TEST(SkipChannelTest, EvaluationRunsOverTheSameChannels) {
  PipelineShape shape{.num_stages = 3, .num_micro_batches = 3, .num_skips = 1};
  ExecutorHarness harness(shape);
  shape.forward_only = true;
  harness.AddEvaluation(shape);
  for (uint64_t step = 1; step <= 3; ++step) {
    for (const auto& report : harness.RunAll(harness.Order(step, 0, {2, 2, 2}))) ASSERT_TRUE(report.ok());
    harness.worker(2).stage->calls.clear();
    v1::RunStep order = harness.Order(step, 0, {2, 2, 1});
    order.set_evaluation(true);
    for (const auto& report : harness.RunAll(order)) ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(CallOf(harness, 2, "F2").skips_read, std::vector<float>(8, 5));
  }
}

// On devices whose work completes later: a send waits for the instruction that has written its slot, and a receive that
// uses a slot again for the one that has read it.
TEST(SkipChannelTest, PostsWaitForTheInstructionsThatUseTheirSlots) {
  ExecutorHarness harness({.num_stages = 3, .num_micro_batches = 3, .num_skips = 1}, {.asynchronous = true});
  for (const uint32_t rank : {0u, 2u}) {
    v1::StageProgram program = harness.worker(rank).program;
    // Ordinary edges would wait for the same instructions.
    for (v1::Instruction& instruction : *program.mutable_instructions()) {
      const bool computes = instruction.skip_recv_size() + instruction.skip_send_size() > 0;
      if (computes) instruction.set_recv_slot(-1), instruction.set_send_slot(-1);
    }
    const auto prepared = PrepareProgram(program, harness.CollaboratorsOf(rank, program));
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    const auto event_after = [&](v1::ActionKind kind, uint32_t micro_batch) -> const EventRef* {
      for (const PreparedInstruction& each : prepared->instructions) {
        if (each.action.kind() == kind && each.micro_batch == micro_batch) return each.used;
      }
      return nullptr;
    };
    size_t num_sends = 0, num_receives = 0;
    for (const PreparedInstruction& post : prepared->instructions) {
      const TransferSlots* slots = post.send != nullptr ? post.send : post.recv;
      if (slots == nullptr || slots->spec().skip_connections().empty()) continue;
      const bool is_gradient = slots->spec().kind() == v1::CHANNEL_KIND_SKIP_GRADIENT;
      const v1::ActionKind user = is_gradient ? v1::ACTION_KIND_BACKWARD_INPUT : v1::ACTION_KIND_FORWARD;
      SCOPED_TRACE(ActionText(post.action));
      if (post.send != nullptr) {
        ++num_sends;
        ASSERT_NE(post.ready, nullptr);
        EXPECT_EQ(post.ready, event_after(user, post.micro_batch));
      } else if (++num_receives; post.micro_batch == 2) {
        ASSERT_NE(post.ready, nullptr);
        EXPECT_EQ(post.ready, event_after(user, 0));
      }
    }
    EXPECT_EQ(num_sends, 3u);
    EXPECT_EQ(num_receives, 3u);
  }
}

TEST(SkipChannelTest, ProgressNamesTheChannelThatIsWaitedFor) {
  ExecutorHarness harness({.num_stages = 2, .num_micro_batches = 1, .num_skips = 1});
  ExecutorHarness::Worker& last = harness.worker(1);
  // The first stage sends its activation, and then keeps what should go over the skip edge.
  v1::StageProgram& program = harness.worker(0).program;
  auto& instructions = *program.mutable_instructions();
  const auto skip = std::find_if(instructions.begin(), instructions.end(), [&](const v1::Instruction& instruction) {
    return instruction.action().kind() == v1::ACTION_KIND_SEND_FORWARD &&
           program.channels(static_cast<int>(instruction.channel())).kind() == v1::CHANNEL_KIND_SKIP;
  });
  ASSERT_NE(skip, instructions.end());
  instructions.erase(skip);
  harness.Rebuild(0);
  std::vector<NamedThread> threads;
  for (const uint32_t rank : {0u, 1u}) {
    threads.emplace_back("executor", [&harness, rank] {
      EXPECT_FALSE(harness.worker(rank).executor->Run(harness.Order(1, 0, {2})).ok());
    });
  }
  const auto waited_for = [&] {
    const ExecutorProgress progress = last.executor->progress();
    return progress.waiting ? last.program.channels(static_cast<int>(progress.channel)).kind()
                            : v1::CHANNEL_KIND_UNSPECIFIED;
  };
  while (waited_for() != v1::CHANNEL_KIND_SKIP) std::this_thread::yield();
  const auto instruction = static_cast<int>(last.executor->progress().instruction);
  EXPECT_EQ(ActionText(last.program.instructions(instruction).action()), "1F0");
  for (const uint32_t rank : {0u, 1u}) {
    harness.worker(rank).executor->Abort();
    harness.worker(rank).transport->Abort(absl::AbortedError("enough"));
  }
}

class SkipProgramTest : public testing::Test {
 protected:
  // Why the program of a worker is refused after a change.
  std::string Refusal(uint32_t rank, const std::function<void(v1::StageProgram&)>& change) {
    v1::StageProgram program = harness_.worker(rank).program;
    change(program);
    const absl::Status status = harness_.Create(rank, program).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }
  static v1::Instruction& FirstOf(v1::StageProgram& program, v1::ActionKind kind) {
    return *std::find_if(program.mutable_instructions()->begin(), program.mutable_instructions()->end(),
                         [kind](const v1::Instruction& each) { return each.action().kind() == kind; });
  }
  static int ChannelOf(const v1::StageProgram& program, v1::ChannelKind kind) {
    for (int i = 0; i < program.channels_size(); ++i) {
      if (program.channels(i).kind() == kind) return i;
    }
    return -1;
  }

  ExecutorHarness harness_{{.num_stages = 3, .num_micro_batches = 1, .num_skips = 2}};
};

TEST_F(SkipProgramTest, NamesSlotsAndChannelsThatAreNotThere) {
  EXPECT_THAT(Refusal(0, [](auto& p) { FirstOf(p, v1::ACTION_KIND_FORWARD).mutable_skip_send(0)->set_slot(2); }),
              HasSubstr("0F0: channel 1 has no slot 2"));
  EXPECT_THAT(Refusal(0, [](auto& p) { FirstOf(p, v1::ACTION_KIND_FORWARD).mutable_skip_send(0)->set_slot(-1); }),
              HasSubstr("0F0: channel 1 has no slot -1"));
  EXPECT_THAT(Refusal(0, [](auto& p) { FirstOf(p, v1::ACTION_KIND_FORWARD).mutable_skip_send(0)->set_channel(9); }),
              HasSubstr("0F0: channel 9 has no sender here"));
  EXPECT_THAT(Refusal(2, [](auto& p) { FirstOf(p, v1::ACTION_KIND_FORWARD).mutable_skip_recv(0)->set_channel(9); }),
              HasSubstr("2F0: channel 9 has no receiver here"));
}

TEST_F(SkipProgramTest, NamesChannelsOfAnotherKindOrStage) {
  EXPECT_THAT(Refusal(0, [](auto& p) { FirstOf(p, v1::ACTION_KIND_FORWARD).mutable_skip_send(0)->set_channel(0); }),
              HasSubstr("0F0: it writes channel 0 as a skip edge, which is from stage 0 to stage 1 and of kind activ"));
  const auto swap = [](auto& p) {
    const auto gradients = static_cast<uint32_t>(ChannelOf(p, v1::CHANNEL_KIND_SKIP_GRADIENT));
    v1::SkipSlot& skip = *FirstOf(p, v1::ACTION_KIND_FORWARD).mutable_skip_recv()->Add();
    skip.set_channel(gradients);
  };
  EXPECT_THAT(Refusal(0, swap), HasSubstr("0F0: it reads channel 3 as a skip edge, which is from stage 2 to stage 0"));
  EXPECT_THAT(Refusal(0,
                      [](auto& p) {
                        *FirstOf(p, v1::ACTION_KIND_BACKWARD_WEIGHT).mutable_skip_recv() =
                            FirstOf(p, v1::ACTION_KIND_BACKWARD_INPUT).skip_recv();
                      }),
              HasSubstr("0W0: it reads channel 3 as a skip edge"));
}

TEST_F(SkipProgramTest, NamesAChannelOfOtherTensors) {
  const auto channel = [](auto& p) { return p.mutable_channels(ChannelOf(p, v1::CHANNEL_KIND_SKIP)); };
  EXPECT_THAT(Refusal(0, [&](auto& p) { channel(p)->clear_skip_connections(); }),
              HasSubstr("channel 1 is of a skip edge and carries no connection"));
  EXPECT_THAT(Refusal(0, [&](auto& p) { channel(p)->set_bytes_per_sample(48); }),
              HasSubstr("channel 1: 48 bytes per sample are not 2 tensors of whole columns of 16 bytes"));
  EXPECT_THAT(Refusal(0, [&](auto& p) { channel(p)->set_bytes_per_sample(0); }),
              HasSubstr("channel 1: 0 bytes per sample are not 2 tensors"));
}

}  // namespace
}  // namespace stagecoach
