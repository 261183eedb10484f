// What an executor records of its runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/action_text.h"
#include "tests/testing/worker/executor_harness.h"
#include "worker/executor/trace_ring.h"

namespace stagecoach {
namespace {

using testing::ElementsAre;

constexpr PipelineShape kShape{.num_stages = 2, .num_micro_batches = 2};

RecordedRun Newest(const TraceRing& ring) { return *ring.Copy(ring.runs().end - 1); }

std::vector<std::string> Texts(const RecordedRun& run) {
  std::vector<std::string> texts;
  for (const InstructionRecord& record : run.instructions) {
    v1::Action action;
    action.set_kind(static_cast<v1::ActionKind>(record.kind));
    action.set_stage(record.stage);
    action.set_micro_batch(record.micro_batch);
    texts.push_back(ActionText(action));
  }
  return texts;
}

int64_t Milliseconds(int64_t count) { return count * 1'000'000; }

TEST(ExecutorTraceTest, RecordsEveryInstructionInItsOrderWithoutGaps) {
  ExecutorHarness harness(kShape);
  for (const auto& report : harness.RunAll(harness.Order(3, 0, {2, 2}))) ASSERT_TRUE(report.ok()) << report.status();
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const RecordedRun run = Newest(harness.worker(rank).trace);
    EXPECT_EQ(run.run.step, Step(3));
    EXPECT_EQ(run.run.epoch, Epoch(1));
    EXPECT_FALSE(run.run.failed);
    std::vector<std::string> expected;
    for (const auto& instruction : harness.worker(rank).program.instructions()) {
      expected.push_back(ActionText(instruction.action()));
    }
    EXPECT_EQ(Texts(run), expected);
    int64_t last = run.run.begin;
    for (const InstructionRecord& record : run.instructions) {
      EXPECT_EQ(record.begin, last);
      EXPECT_LE(record.begin, record.wait_end);
      EXPECT_LE(record.wait_end, record.end);
      last = record.end;
    }
    EXPECT_LE(last, run.run.last_wait_end);
    EXPECT_LE(run.run.last_wait_end, run.run.end);
  }
}

// The clock moves in the calls of a stage alone.
TEST(ExecutorTraceTest, TellsWaitingFromWork) {
  ExecutorHarness harness({.num_stages = 1, .num_micro_batches = 1});
  harness.worker(0).options.hook = [&](const char* kind, const MicroBatch&) {
    harness.clock.Advance(absl::Milliseconds(kind[0] == 'F' ? 3 : 5));
    return absl::OkStatus();
  };
  harness.Rebuild(0);
  const auto reports = harness.RunAll(harness.Order(1, 0, {2}));
  ASSERT_TRUE(reports[0].ok()) << reports[0].status();
  const RecordedRun run = Newest(harness.worker(0).trace);
  std::vector<int64_t> work;
  for (const InstructionRecord& record : run.instructions) {
    if (record.kind <= v1::ACTION_KIND_BACKWARD_WEIGHT) work.push_back(record.end - record.wait_end);
  }
  EXPECT_THAT(work, ElementsAre(Milliseconds(3), Milliseconds(5), Milliseconds(5)));
  EXPECT_EQ(run.run.end - run.run.begin, Milliseconds(13));
}

TEST(ExecutorTraceTest, RecordsBothEndsOfEachTransfer) {
  ExecutorHarness harness(kShape);
  for (const auto& report : harness.RunAll(harness.Order(1, 0, {2, 1}))) ASSERT_TRUE(report.ok()) << report.status();
  const std::vector<TransferRecord> here = Newest(harness.worker(0).trace).transfers;
  const std::vector<TransferRecord> there = Newest(harness.worker(1).trace).transfers;
  ASSERT_EQ(here.size(), 4u);  // two activations out, two gradients in
  ASSERT_EQ(there.size(), 4u);
  for (const TransferRecord& one : here) {
    EXPECT_EQ(one.sent, one.from_stage == 0);
    const auto other = std::find_if(there.begin(), there.end(), [&](const TransferRecord& record) {
      return record.kind == one.kind && record.micro_batch == one.micro_batch;
    });
    ASSERT_NE(other, there.end());
    EXPECT_NE(other->sent, one.sent);
    EXPECT_EQ(other->bytes, one.bytes);
    EXPECT_GT(one.bytes, 0u);
  }
}

// Whoever posts second copies: that is when a transfer is complete at both ends, whenever they look.
TEST(ExecutorTraceTest, ATransferIsCompleteWhenItWasAndNotWhenItIsAskedFor) {
  ExecutorHarness harness(kShape);
  harness.clock.Advance(absl::Milliseconds(1));
  harness.worker(1).options.hook = [&](const char* kind, const MicroBatch&) {
    if (kind[0] == 'W') harness.clock.Advance(absl::Milliseconds(10));
    return absl::OkStatus();
  };
  harness.Rebuild(1);
  for (const auto& report : harness.RunAll(harness.Order(1, 0, {2, 2}))) ASSERT_TRUE(report.ok()) << report.status();
  for (const TransferRecord& record : Newest(harness.worker(1).trace).transfers) {
    EXPECT_NE(record.completed, 0);
    EXPECT_GE(record.completed, record.post);
    // Activations arrive before the first backward.
    if (record.kind == v1::CHANNEL_KIND_ACTIVATION) {
      EXPECT_EQ(record.completed, Milliseconds(1));
    }
  }
}

TEST(ExecutorTraceTest, ARunThatFailsIsCutOffThere) {
  ExecutorHarness harness({.num_stages = 1, .num_micro_batches = 2});
  harness.worker(0).options.hook = [](const char* kind, const MicroBatch& micro_batch) {
    return kind[0] == 'I' && micro_batch.index.value() == 1 ? absl::InternalError("broken") : absl::OkStatus();
  };
  harness.Rebuild(0);
  ASSERT_FALSE(harness.RunAll(harness.Order(1, 0, {2, 2}))[0].ok());
  const RecordedRun run = Newest(harness.worker(0).trace);
  EXPECT_TRUE(run.run.failed);
  EXPECT_EQ(Texts(run).back(), "0W0");
}

TEST(ExecutorTraceTest, EvaluationsAreNotRecorded) {
  ExecutorHarness harness(kShape);
  PipelineShape evaluation = kShape;
  evaluation.forward_only = true;
  harness.AddEvaluation(evaluation);
  v1::RunStep order = harness.Order(1, 0, {2, 2});
  order.set_evaluation(true);
  for (const auto& report : harness.RunAll(order)) ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(harness.worker(0).trace.runs().end, 0u);
}

}  // namespace
}  // namespace stagecoach
