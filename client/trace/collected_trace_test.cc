#include "client/trace/collected_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

namespace stagecoach {
namespace {

using testing::SizeIs;

v1::TraceChunk Header(int members) {
  v1::TraceChunk chunk;
  chunk.mutable_header()->set_job("job");
  for (int i = 0; i < members; ++i) chunk.mutable_header()->add_members()->add_stages(static_cast<uint32_t>(i));
  return chunk;
}

v1::TraceChunk RunPart(uint32_t rank, uint64_t step, int64_t begin, int instructions) {
  v1::TraceChunk chunk;
  chunk.mutable_worker()->set_worker_rank(rank);
  v1::StepTrace& run = *chunk.mutable_worker()->mutable_part()->mutable_step();
  run.set_step(step);
  run.set_begin(begin);
  for (int i = 0; i < instructions; ++i) run.add_instructions();
  run.add_transfers();
  return chunk;
}

v1::TraceChunk Last(uint32_t rank) {
  v1::TraceChunk chunk;
  chunk.mutable_worker()->set_worker_rank(rank);
  v1::TracePart& part = *chunk.mutable_worker()->mutable_part();
  part.set_last(true);
  part.set_kept_job("job");
  part.set_most_steps(32);
  part.mutable_clock()->set_offset_nanoseconds(-5);
  return chunk;
}

v1::TraceChunk Missing(uint32_t rank) {
  v1::TraceChunk chunk;
  chunk.mutable_missing()->set_worker_rank(rank);
  chunk.mutable_missing()->set_message("gone");
  return chunk;
}

TEST(TraceCollectorTest, PutsPartsTogetherByWorkerAndRun) {
  TraceCollector collector;
  for (const v1::TraceChunk& chunk : {Header(3), RunPart(1, 7, 100, 4), Missing(2), RunPart(0, 7, 100, 1),
                                      RunPart(1, 7, 100, 3), RunPart(1, 7, 200, 2), Last(1), Last(0)}) {
    ASSERT_TRUE(collector.Add(chunk).ok());
  }
  const CollectedTrace& trace = collector.trace();
  ASSERT_THAT(trace.workers, SizeIs(3));
  ASSERT_THAT(trace.workers[1].runs, SizeIs(2));  // step 7 was run again
  EXPECT_EQ(trace.workers[1].runs[0].instructions_size(), 7);
  EXPECT_EQ(trace.workers[1].runs[0].transfers_size(), 2);
  EXPECT_EQ(trace.workers[1].runs[1].instructions_size(), 2);
  EXPECT_EQ(trace.workers[1].clock->offset_nanoseconds(), -5);
  EXPECT_EQ(trace.workers[1].most_steps, 32u);
  EXPECT_THAT(trace.workers[0].runs, SizeIs(1));
  EXPECT_EQ(trace.workers[0].missing, "");
  EXPECT_EQ(trace.workers[2].missing, "gone");
}

TEST(TraceCollectorTest, WhatContradictsItselfIsRefused) {
  TraceCollector collector;
  EXPECT_TRUE(absl::IsDataLoss(collector.Add(Last(0))));  // before the header there are no workers
  ASSERT_TRUE(collector.Add(Header(2)).ok());
  EXPECT_TRUE(absl::IsDataLoss(collector.Add(RunPart(2, 1, 1, 1))));
  EXPECT_TRUE(absl::IsDataLoss(collector.Add(Missing(9))));
  EXPECT_TRUE(absl::IsDataLoss(collector.Add(Header(2))));
}

class FakeCall final : public StreamCall<v1::TraceChunk> {
 public:
  absl::StatusOr<std::optional<v1::TraceChunk>> Next(absl::Duration) override {
    if (chunks.empty()) return end;
    v1::TraceChunk next = std::move(chunks.front());
    chunks.pop_front();
    return next;
  }
  std::deque<v1::TraceChunk> chunks;
  absl::StatusOr<std::optional<v1::TraceChunk>> end = absl::OutOfRangeError("the end");
};

TEST(CollectTraceTest, ReadsACallToItsEnd) {
  FakeCall call;
  call.chunks = {Header(1), RunPart(0, 1, 1, 1), Last(0)};
  const absl::StatusOr<CollectedTrace> trace = CollectTrace(call, absl::Minutes(1));
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_THAT(trace->workers[0].runs, SizeIs(1));
}

TEST(CollectTraceTest, ACallThatBreaksOrDoesNotEndIsAnError) {
  FakeCall call;
  call.chunks = {Header(1)};
  call.end = absl::UnavailableError("broken");
  EXPECT_TRUE(absl::IsUnavailable(CollectTrace(call, absl::Minutes(1)).status()));
  call.end = std::optional<v1::TraceChunk>();
  EXPECT_TRUE(absl::IsDeadlineExceeded(CollectTrace(call, absl::Minutes(1)).status()));
}

}  // namespace
}  // namespace stagecoach
