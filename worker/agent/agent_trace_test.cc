// What an agent tells of its timeline, and when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/testing/worker/agent_harness.h"

namespace stagecoach {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

class AgentTraceTest : public testing::Test {
 protected:
  void Begin() {
    harness_.Assign();
    harness_.Connect();
  }
  void RunSteps(uint64_t first, uint64_t last) {
    for (uint64_t step = first; step <= last; ++step) {
      harness_.PrepareStep(step);
      harness_.Commit(step);
    }
  }
  // The parts; the last one's request is checked.
  std::vector<v1::TracePart> Read(uint64_t first_step, uint64_t last_step, const std::string& job = "job") {
    v1::CoordinatorMessage ask;
    ask.mutable_read_trace()->set_request(++request_);
    ask.mutable_read_trace()->set_job(job);
    ask.mutable_read_trace()->set_first_step(first_step);
    ask.mutable_read_trace()->set_last_step(last_step);
    // In no epoch.
    const std::string harness_job = std::exchange(harness_.job, "");
    const uint64_t epoch = std::exchange(harness_.epoch, 0);
    harness_.Send(0, ask);
    harness_.job = harness_job;
    harness_.epoch = epoch;
    std::vector<v1::TracePart> parts;
    while (parts.empty() || !parts.back().last()) {
      v1::WorkerMessage message = harness_.Receive(0);
      EXPECT_TRUE(message.has_trace_part()) << message.ShortDebugString();
      if (!message.has_trace_part()) break;
      EXPECT_EQ(message.fence().job(), "");
      EXPECT_EQ(message.trace_part().request(), request_);
      parts.push_back(message.trace_part());
    }
    return parts;
  }
  // Epoch and step of each run told.
  static std::vector<std::pair<uint64_t, uint64_t>> Runs(const std::vector<v1::TracePart>& parts) {
    std::vector<std::pair<uint64_t, uint64_t>> runs;
    for (const v1::TracePart& part : parts) {
      if (part.has_step()) runs.emplace_back(part.step().epoch(), part.step().step());
    }
    return runs;
  }

  AgentHarness harness_{{.num_stages = 2, .num_micro_batches = 3}};
  uint64_t request_ = 0;
};

TEST_F(AgentTraceTest, TellsTheStepsAskedFor) {
  Begin();
  RunSteps(1, 4);
  const std::vector<v1::TracePart> parts = Read(2, 3);
  EXPECT_THAT(Runs(parts), ElementsAre(Pair(1, 2), Pair(1, 3)));
  const v1::StepTrace& step = parts[0].step();
  EXPECT_GT(step.update_end(), step.update_begin());
  EXPECT_LE(step.update_end(), step.begin());
  EXPECT_EQ(step.instructions_size(), harness_.AssignStages(0).assign_stages().program().instructions_size());
  EXPECT_EQ(step.program_hash().substr(0, 9), "training0");
}

TEST_F(AgentTraceTest, AnswersWhileAProgramRuns) {
  std::atomic<bool> hold{true};
  harness_.worker(0).hook = [&](const char*, const MicroBatch& micro_batch) {
    while (micro_batch.step.value() == 3 && hold.load()) std::this_thread::yield();
    return absl::OkStatus();
  };
  Begin();
  RunSteps(1, 2);
  for (const uint32_t rank : {0U, 1U}) harness_.Send(rank, harness_.RunStep(rank, 3));
  EXPECT_THAT(Runs(Read(1, 3)), ElementsAre(Pair(1, 1), Pair(1, 2)));
  hold.store(false);
  EXPECT_TRUE(harness_.Receive(0).has_step_prepared());
}

TEST_F(AgentTraceTest, StepsSurviveAnEpochAndTheEndOfTheJob) {
  Begin();
  RunSteps(1, 1);
  harness_.epoch = 2;
  harness_.Assign(AgentHarness::Record(1));
  harness_.Connect();
  RunSteps(2, 2);
  EXPECT_THAT(Runs(Read(1, 2)), ElementsAre(Pair(1, 1), Pair(2, 2)));
  v1::CoordinatorMessage release;
  release.mutable_release();
  for (const uint32_t rank : {0U, 1U}) harness_.Send(rank, release);
  EXPECT_THAT(Runs(Read(1, 2)), ElementsAre(Pair(1, 1), Pair(2, 2)));
  harness_.job = "next";
  harness_.epoch = 3;
  Begin();
  const std::vector<v1::TracePart> parts = Read(1, 2);
  EXPECT_THAT(Runs(parts), IsEmpty());
  EXPECT_EQ(parts.back().kept_job(), "next");
}

TEST_F(AgentTraceTest, SaysHowFarTheCoordinatorsClockIsAhead) {
  harness_.welcome.mutable_heartbeat_interval()->set_seconds(1);
  harness_.welcome.set_clock_nanoseconds(absl::ToInt64Nanoseconds(absl::Seconds(500)));
  harness_.Break(0);
  harness_.clock.Advance(absl::Minutes(1));  // until it dials again
  harness_.Accept(0);
  harness_.clock.Advance(absl::Seconds(4));  // until it is welcomed
  harness_.Welcome(0);
  const absl::Duration now = harness_.clock.Now();
  const v1::WorkerMessage heartbeat = harness_.Receive(0);  // overdue
  ASSERT_TRUE(heartbeat.has_heartbeat());
  const v1::ClockOffset first = Read(1, 1).back().clock();
  EXPECT_EQ(first.offset_nanoseconds(), absl::ToInt64Nanoseconds(absl::Seconds(500) - (now - absl::Seconds(2))));
  EXPECT_EQ(first.error_nanoseconds(), 2'000'000'000u);
  // A heartbeat that is answered sooner is worth more.
  v1::CoordinatorMessage reply;
  reply.mutable_heartbeat_reply()->set_sequence(heartbeat.heartbeat().sequence());
  reply.mutable_heartbeat_reply()->set_clock_nanoseconds(absl::ToInt64Nanoseconds(absl::Seconds(900)));
  harness_.Send(0, reply);
  harness_.AwaitRead(0);
  const v1::ClockOffset second = Read(1, 1).back().clock();
  EXPECT_EQ(second.offset_nanoseconds(), absl::ToInt64Nanoseconds(absl::Seconds(900) - now));
  EXPECT_EQ(second.error_nanoseconds(), 0u);
}

}  // namespace
}  // namespace stagecoach
