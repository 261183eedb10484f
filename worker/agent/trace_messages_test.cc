#include "worker/agent/trace_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stagecoach {
namespace {

using testing::ElementsAre;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max() / 2;

v1::ReadTrace Order(uint64_t first_step, uint64_t last_step) {
  v1::ReadTrace order;
  order.set_request(9);
  order.set_job("job");
  order.set_first_step(first_step);
  order.set_last_step(last_step);
  return order;
}

void RecordRun(TraceRing& ring, uint64_t step, size_t instructions, bool failed = false) {
  ring.BeginRun({.step = Step(step),
                 .epoch = Epoch(3),
                 .program_hash = "hash",
                 .begin = 1000,
                 .most_instructions = instructions,
                 .most_transfers = 2});
  for (size_t i = 0; i < instructions; ++i) {
    ring.Add(
        {.begin = 1010, .wait_end = 1012, .end = 1017, .micro_batch = 4, .stage = 2, .kind = v1::ACTION_KIND_FORWARD});
  }
  const TransferRecord transfer{.post = 1020,
                                .completed = 0,
                                .bytes = 64,
                                .from_stage = 1,
                                .to_stage = 2,
                                .micro_batch = 4,
                                .kind = v1::CHANNEL_KIND_GRADIENT,
                                .sent = false};
  ring.Complete(ring.Add(transfer), 1050);
  ring.Add(transfer);
  ring.EndRun(1060, 1070, failed);
}

std::vector<uint64_t> Steps(const std::vector<v1::TracePart>& parts) {
  std::vector<uint64_t> steps;
  for (const v1::TracePart& part : parts) {
    if (part.has_step()) steps.push_back(part.step().step());
  }
  return steps;
}

class AnswerReadTraceTest : public testing::Test {
 protected:
  AnswerReadTraceTest() { ring_.BeginJob(JobId("job")); }
  TraceRing ring_;
};

TEST_F(AnswerReadTraceTest, TellsTimesSinceTheRunsBegin) {
  ring_.NoteUpdate(900, 950);
  RecordRun(ring_, 5, 1);
  const std::vector<v1::TracePart> parts =
      AnswerReadTrace(Order(5, 5), ring_,
                      ClockOffsetEstimator::Estimate{.offset = absl::Nanoseconds(-7), .error = absl::Nanoseconds(3)});
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].request(), 9u);
  EXPECT_FALSE(parts[0].last());
  const v1::StepTrace& step = parts[0].step();
  EXPECT_EQ(step.epoch(), 3u);
  EXPECT_EQ(step.program_hash().substr(0, 4), "hash");
  EXPECT_EQ(step.begin(), 1000);
  EXPECT_EQ(step.update_begin(), 900);
  EXPECT_EQ(step.update_end(), 950);
  EXPECT_EQ(step.last_wait_end(), 60u);
  EXPECT_EQ(step.end(), 70u);
  ASSERT_EQ(step.instructions_size(), 1);
  EXPECT_EQ(step.instructions(0).action().kind(), v1::ACTION_KIND_FORWARD);
  EXPECT_EQ(step.instructions(0).action().stage(), 2u);
  EXPECT_EQ(step.instructions(0).action().micro_batch(), 4u);
  EXPECT_EQ(step.instructions(0).begin(), 10u);
  EXPECT_EQ(step.instructions(0).wait(), 2u);
  EXPECT_EQ(step.instructions(0).work(), 5u);
  ASSERT_EQ(step.transfers_size(), 2);
  EXPECT_EQ(step.transfers(0).post(), 20u);
  EXPECT_TRUE(step.transfers(0).complete());
  EXPECT_EQ(step.transfers(0).duration(), 30u);
  EXPECT_EQ(step.transfers(0).bytes(), 64u);
  EXPECT_FALSE(step.transfers(1).complete());
  EXPECT_TRUE(parts[1].last());
  EXPECT_EQ(parts[1].request(), 9u);
  EXPECT_EQ(parts[1].kept_job(), "job");
  EXPECT_EQ(parts[1].most_steps(), kMostTracedSteps);
  EXPECT_EQ(parts[1].clock().offset_nanoseconds(), -7);
  EXPECT_EQ(parts[1].clock().error_nanoseconds(), 3u);
}

TEST_F(AnswerReadTraceTest, TellsTheStepsAskedForAndWhatFailedAfterThem) {
  for (uint64_t step = 1; step <= 6; ++step) RecordRun(ring_, step, 1, /*failed=*/step == 6);
  EXPECT_THAT(Steps(AnswerReadTrace(Order(2, 4), ring_, std::nullopt)), ElementsAre(2, 3, 4, 6));
}

TEST_F(AnswerReadTraceTest, OfAnotherJobItHasNothing) {
  RecordRun(ring_, 1, 1);
  v1::ReadTrace order = Order(1, 1);
  order.set_job("other");
  const std::vector<v1::TracePart> parts = AnswerReadTrace(order, ring_, std::nullopt);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_TRUE(parts[0].last());
  EXPECT_EQ(parts[0].kept_job(), "job");
  EXPECT_FALSE(parts[0].has_clock());
}

// The longest encoding of every number.
TEST_F(AnswerReadTraceTest, NoPartIsLargerThan256KiB) {
  constexpr size_t kInstructions = 60'000, kTransfers = 30'000;
  ring_.BeginRun({.step = Step(1), .most_instructions = kInstructions, .most_transfers = kTransfers});
  for (size_t i = 0; i < kInstructions; ++i) {
    ring_.Add({.begin = kMax,
               .wait_end = kMax,
               .end = kMax + kMax,
               .micro_batch = UINT32_MAX,
               .stage = UINT16_MAX,
               .kind = v1::ACTION_KIND_GRADIENT_NORM});
  }
  for (size_t i = 0; i < kTransfers; ++i) {
    ring_.Add({.post = 1,
               .completed = kMax,
               .bytes = UINT64_MAX,
               .from_stage = UINT32_MAX,
               .to_stage = UINT32_MAX,
               .micro_batch = UINT32_MAX,
               .kind = v1::CHANNEL_KIND_STATE,
               .sent = true});
  }
  ring_.EndRun(kMax, kMax, false);
  const std::vector<v1::TracePart> parts = AnswerReadTrace(Order(1, 1), ring_, std::nullopt);
  int instructions = 0, transfers = 0;
  for (const v1::TracePart& part : parts) {
    EXPECT_LE(part.ByteSizeLong(), size_t{256} << 10);
    instructions += part.step().instructions_size();
    transfers += part.step().transfers_size();
  }
  EXPECT_EQ(instructions, static_cast<int>(kInstructions));
  EXPECT_EQ(transfers, static_cast<int>(kTransfers));
  EXPECT_LE(parts.size(), 60u);
}

}  // namespace
}  // namespace stagecoach
