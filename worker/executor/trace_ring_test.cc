#include "worker/executor/trace_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "common/named_thread.h"

namespace stagecoach {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr TraceRing::Limits kSmall = {.runs = 3, .instructions = 10, .transfers = 5};

InstructionRecord Instruction(int64_t begin) {
  return {.begin = begin, .wait_end = begin, .end = begin + 1, .micro_batch = 0, .stage = 0, .kind = 1};
}
TransferRecord TransferOf(uint64_t bytes) {
  return {.post = 1,
          .completed = 0,
          .bytes = bytes,
          .from_stage = 0,
          .to_stage = 1,
          .micro_batch = 0,
          .kind = 1,
          .sent = true};
}

// Instructions begin at 100 times the step and later.
void RecordRun(TraceRing& ring, uint64_t step, size_t instructions, size_t transfers = 0) {
  const auto begin = static_cast<int64_t>(100 * step);
  ring.BeginRun({.step = Step(step), .begin = begin, .most_instructions = instructions, .most_transfers = transfers});
  for (size_t i = 0; i < instructions; ++i) ring.Add(Instruction(begin + static_cast<int64_t>(i)));
  for (size_t i = 0; i < transfers; ++i) ring.Add(TransferOf(step));
  ring.EndRun(begin + 90, begin + 99, /*failed=*/false);
}

std::vector<uint64_t> Steps(const TraceRing& ring) {
  std::vector<uint64_t> steps;
  const TraceRing::Runs runs = ring.runs();
  for (uint64_t run = runs.first; run < runs.end; ++run) steps.push_back(ring.Copy(run)->run.step.value());
  return steps;
}

RecordedRun Newest(const TraceRing& ring) { return *ring.Copy(ring.runs().end - 1); }

TEST(TraceRingTest, KeepsWhatARunDid) {
  TraceRing ring(kSmall);
  ring.BeginJob(JobId("job"));
  ring.NoteUpdate(50, 60);
  ring.BeginRun({.step = Step(4),
                 .epoch = Epoch(2),
                 .program_hash = "0123456789abcdefgh",
                 .begin = 100,
                 .most_instructions = 2,
                 .most_transfers = 1});
  ring.Add(Instruction(100));
  const uint64_t transfer = ring.Add(TransferOf(64));
  ring.Add(Instruction(101));
  ring.Complete(transfer, 107);
  ring.EndRun(110, 120, /*failed=*/true);
  const RecordedRun run = Newest(ring);
  EXPECT_EQ(ring.runs().job, JobId("job"));
  EXPECT_EQ(run.run.step, Step(4));
  EXPECT_EQ(run.run.epoch, Epoch(2));
  EXPECT_EQ(std::string(run.run.program_hash.data(), 16), "0123456789abcdef");
  EXPECT_TRUE(run.run.failed);
  EXPECT_EQ(run.run.begin, 100);
  EXPECT_EQ(run.run.update_begin, 50);
  EXPECT_EQ(run.run.update_end, 60);
  EXPECT_EQ(run.run.last_wait_end, 110);
  EXPECT_EQ(run.run.end, 120);
  ASSERT_EQ(run.instructions.size(), 2u);
  EXPECT_EQ(run.instructions[1].begin, 101);
  ASSERT_EQ(run.transfers.size(), 1u);
  EXPECT_EQ(run.transfers[0].completed, 107);
}

TEST(TraceRingTest, AnUpdateIsOfTheRunAfterItAlone) {
  TraceRing ring(kSmall);
  ring.NoteUpdate(50, 60);
  RecordRun(ring, 1, 1);
  EXPECT_EQ(Newest(ring).run.update_end, 60);
  RecordRun(ring, 2, 1);
  EXPECT_EQ(Newest(ring).run.update_end, 0);
}

TEST(TraceRingTest, KeepsTheNewestRuns) {
  TraceRing ring(kSmall);
  for (uint64_t step = 1; step <= 5; ++step) RecordRun(ring, step, 1);
  EXPECT_THAT(Steps(ring), ElementsAre(3, 4, 5));
  EXPECT_EQ(ring.Copy(0), std::nullopt);
}

TEST(TraceRingTest, DropsRunsWhoseRecordsHaveToMakeRoom) {
  TraceRing ring(kSmall);
  RecordRun(ring, 1, 4);
  RecordRun(ring, 2, 4);
  RecordRun(ring, 3, 4);
  EXPECT_THAT(Steps(ring), ElementsAre(2, 3));
  for (const RecordedRun& run : {*ring.Copy(1), *ring.Copy(2)}) {
    ASSERT_EQ(run.instructions.size(), 4u);
    EXPECT_EQ(run.instructions[0].begin, static_cast<int64_t>(100 * run.run.step.value()));
    EXPECT_EQ(run.instructions[3].begin, static_cast<int64_t>(100 * run.run.step.value() + 3));
  }
  RecordRun(ring, 4, 1, 3);
  RecordRun(ring, 5, 1, 3);  // transfers need room too
  EXPECT_THAT(Steps(ring), ElementsAre(5));
}

TEST(TraceRingTest, ARunThatIsTooLongLosesItsFirstInstructions) {
  TraceRing ring(kSmall);
  RecordRun(ring, 1, 2);
  RecordRun(ring, 2, 13, 7);
  EXPECT_THAT(Steps(ring), ElementsAre(2));
  const RecordedRun run = Newest(ring);
  EXPECT_EQ(run.run.num_lost, 3u);
  ASSERT_EQ(run.instructions.size(), 10u);
  EXPECT_EQ(run.instructions.front().begin, 203);
  EXPECT_EQ(run.instructions.back().begin, 212);
  EXPECT_EQ(run.transfers.size(), 5u);
  ring.Complete(1, 1);  // its place is another's by now: ignored
  EXPECT_EQ(Newest(ring).transfers[0].completed, 0);
}

TEST(TraceRingTest, TheRunUnderWayIsNotThereYet) {
  TraceRing ring(kSmall);
  ring.BeginRun({.step = Step(1), .most_instructions = 1});
  ring.Add(Instruction(1));
  EXPECT_THAT(Steps(ring), IsEmpty());
  ring.EndRun(2, 3, false);
  EXPECT_THAT(Steps(ring), ElementsAre(1));
  ring.EndRun(2, 3, false);  // nothing has begun
  EXPECT_THAT(Steps(ring), ElementsAre(1));
}

TEST(TraceRingTest, AnotherJobBeginsWithNothing) {
  TraceRing ring(kSmall);
  ring.BeginJob(JobId("a"));
  RecordRun(ring, 1, 1);
  ring.BeginJob(JobId("a"));  // another epoch of it
  EXPECT_THAT(Steps(ring), ElementsAre(1));
  ring.NoteUpdate(1, 2);
  ring.BeginJob(JobId("b"));
  EXPECT_THAT(Steps(ring), IsEmpty());
  EXPECT_EQ(ring.runs().job, JobId("b"));
  RecordRun(ring, 1, 1);
  EXPECT_EQ(Newest(ring).run.update_end, 0);
}

// What is read while others are recorded is whole: for ThreadSanitizer too.
TEST(TraceRingTest, MayBeReadWhileItIsWritten) {
  TraceRing ring(kSmall);
  std::atomic<bool> done{false};
  NamedThread writer("writer", [&] {
    for (uint64_t step = 1; step <= 20'000; ++step) RecordRun(ring, step, step % 7, step % 3);
    done = true;
  });
  uint64_t num_read = 0;
  while (!done || num_read == 0) {
    const TraceRing::Runs runs = ring.runs();
    for (uint64_t number = runs.first; number < runs.end; ++number) {
      const std::optional<RecordedRun> run = ring.Copy(number);
      if (!run.has_value()) continue;
      ++num_read;
      const uint64_t step = run->run.step.value();
      ASSERT_EQ(run->instructions.size(), step % 7);
      for (size_t i = 0; i < run->instructions.size(); ++i) {
        ASSERT_EQ(run->instructions[i].begin, static_cast<int64_t>(100 * step + i));
      }
      ASSERT_EQ(run->transfers.size(), step % 3);
      for (const TransferRecord& transfer : run->transfers) ASSERT_EQ(transfer.bytes, step);
    }
  }
}

}  // namespace
}  // namespace stagecoach
