#include "common/trace/clock_alignment.h"

#include <gtest/gtest.h>

namespace stagecoach {
namespace {

constexpr double kPrecision = 1e-9;

TraceSpan Span(SpanKind kind, uint32_t stage, double begin, double end) {
  return {.kind = kind, .name = "x", .stage = stage, .micro_batch = 0, .step = 1, .begin = begin, .end = end};
}

// One micro-batch up two stages and down again. What worker 1 does seems to be `early` seconds earlier than it was.
PipelineTrace Trace(double early, double error) {
  PipelineTrace trace{.name = "t",
                      .stages = {{.worker = 0, .worker_name = "a", .clock_error = error},
                                 {.worker = 1, .worker_name = "b", .clock_error = error}},
                      .steps = {{1, 0, 10}}};
  trace.spans = {Span(SpanKind::kForward, 0, 0, 1), Span(SpanKind::kForward, 1, 1.1 - early, 2.1 - early),
                 Span(SpanKind::kBackwardInput, 1, 2.1 - early, 3 - early), Span(SpanKind::kBackwardInput, 0, 3.1, 4)};
  trace.transfers = {{.name = "1RECV_F0", .stage = 1, .step = 1, .begin = 0.5 - early, .end = 1.1 - early}};
  return trace;
}

void ExpectInOrder(const PipelineTrace& trace) {
  for (const MicroBatchFlow& flow : FlowsOf(trace)) {
    for (size_t i = 1; i < flow.spans.size(); ++i) {
      EXPECT_GE(trace.spans[flow.spans[i]].begin, trace.spans[flow.spans[i - 1]].end - kPrecision) << i;
    }
  }
}

TEST(ClockAlignmentTest, WhatCannotBeIsPutRightWithinTheErrors) {
  PipelineTrace trace = Trace(0.4, 0.3);
  AlignClocks(trace);
  ExpectInOrder(trace);
  // Worker 1 is 0.3 to 0.5 late against worker 0, each of them by 0.3 at most.
  EXPECT_NEAR(trace.spans[0].begin, 0, kPrecision);
  EXPECT_NEAR(trace.spans[1].begin, 1, kPrecision);
  EXPECT_NEAR(trace.steps[0].begin, 0.15, kPrecision);
  EXPECT_NEAR(*trace.stages[0].clock_error, 0.15, kPrecision);
  EXPECT_NEAR(*trace.stages[1].clock_error, 0.15, kPrecision);
  EXPECT_NEAR(trace.transfers[0].begin, 0.4, kPrecision);
}

TEST(ClockAlignmentTest, ATightOrderTellsMoreThanTheClocks) {
  PipelineTrace trace = Trace(0, 5);
  AlignClocks(trace);
  ExpectInOrder(trace);
  // Both may be off by 5 together, but not against each other by more than the 0.1 between their spans.
  EXPECT_NEAR(trace.spans[1].begin - trace.spans[0].begin, 1.1, kPrecision);
  EXPECT_NEAR(*trace.stages[0].clock_error, 5, kPrecision);
}

TEST(ClockAlignmentTest, WhatIsPossibleStays) {
  PipelineTrace trace = Trace(0, 0.01);
  AlignClocks(trace);
  EXPECT_NEAR(trace.spans[1].begin, 1.1, kPrecision);
  EXPECT_NEAR(*trace.stages[1].clock_error, 0.01, kPrecision);
}

TEST(ClockAlignmentTest, WhereNoOffsetsFitNothingChanges) {
  PipelineTrace trace = Trace(2, 0.3);
  AlignClocks(trace);
  EXPECT_EQ(trace.spans[1].begin, 1.1 - 2);
  EXPECT_EQ(*trace.stages[1].clock_error, 0.3);
}

TEST(ClockAlignmentTest, TimesWithoutAClockAreLeftAlone) {
  PipelineTrace trace = Trace(0.4, 0.3);
  for (TraceStage& stage : trace.stages) stage.clock_error.reset();
  AlignClocks(trace);
  EXPECT_EQ(trace.spans[1].begin, 1.1 - 0.4);
}

}  // namespace
}  // namespace stagecoach
