#include "common/trace/pipeline_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stagecoach {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::Optional;

TraceSpan Span(SpanKind kind, uint32_t stage, uint32_t micro_batch, double begin, double end, uint64_t step = 1) {
  return {
      .kind = kind, .name = "", .stage = stage, .micro_batch = micro_batch, .step = step, .begin = begin, .end = end};
}

// [step, micro-batch] and the stages that the flow passes.
std::vector<uint32_t> StagesOf(const PipelineTrace& trace, const MicroBatchFlow& flow) {
  std::vector<uint32_t> stages;
  for (const size_t span : flow.spans) stages.push_back(trace.spans[span].stage);
  return stages;
}

TEST(FlowsOfTest, LeadAMicroBatchUpTheStagesAndBack) {
  PipelineTrace trace{.name = "t", .stages = {{.worker = 0}, {.worker = 1}, {.worker = 2}}};
  trace.spans = {Span(SpanKind::kBackwardInput, 0, 4, 8, 9), Span(SpanKind::kBackwardWeight, 0, 4, 9, 10),
                 Span(SpanKind::kForward, 2, 4, 2, 3),       Span(SpanKind::kBackwardInput, 2, 4, 3, 4),
                 Span(SpanKind::kForward, 0, 4, 0, 1),       Span(SpanKind::kBackward, 1, 4, 5, 6),
                 Span(SpanKind::kForward, 1, 4, 1, 2)};
  const std::vector<MicroBatchFlow> flows = FlowsOf(trace);
  ASSERT_EQ(flows.size(), 1u);
  EXPECT_EQ(flows[0].step, 1u);
  EXPECT_EQ(flows[0].micro_batch, 4u);
  EXPECT_THAT(StagesOf(trace, flows[0]), ElementsAre(0, 1, 2, 2, 1, 0));
  EXPECT_EQ(trace.spans[flows[0].spans[2]].kind, SpanKind::kForward);
}

TEST(FlowsOfTest, KeepStepsAndMicroBatchesApart) {
  PipelineTrace trace{.name = "t", .stages = {{.worker = 0}, {.worker = 1}}};
  for (const uint64_t step : {1U, 2U}) {
    for (const uint32_t micro_batch : {0U, 1U}) {
      for (const uint32_t stage : {0U, 1U})
        trace.spans.push_back(Span(SpanKind::kForward, stage, micro_batch, 0, 1, step));
    }
  }
  EXPECT_EQ(FlowsOf(trace).size(), 4u);
}

TEST(FlowsOfTest, OneSpanIsNoFlow) {
  PipelineTrace trace{.name = "t", .stages = {{.worker = 0}}};
  trace.spans = {Span(SpanKind::kForward, 0, 0, 0, 1), Span(SpanKind::kBackwardWeight, 0, 0, 1, 2)};
  EXPECT_TRUE(FlowsOf(trace).empty());
}

TEST(UtilizationOfTest, IsBusyTimeOverTheStep) {
  PipelineTrace trace{.name = "t", .stages = {{.worker = 0}, {.worker = 1}}, .steps = {{1, 0, 10}}};
  trace.spans = {Span(SpanKind::kUpdate, 0, 0, -1, 1),        Span(SpanKind::kForward, 0, 0, 1, 4),
                 Span(SpanKind::kWait, 0, 0, 4, 8),           Span(SpanKind::kOther, 0, 0, 8, 9),
                 Span(SpanKind::kLoad, 1, 0, 0, 4),           Span(SpanKind::kBackwardInput, 1, 0, 4, 5),
                 Span(SpanKind::kBackwardWeight, 1, 0, 5, 7), Span(SpanKind::kForward, 1, 0, 11, 20, 2)};
  const std::vector<StepUtilization> steps = UtilizationOf(trace);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].seconds, 10);
  EXPECT_THAT(steps[0].stages, ElementsAre(Optional(DoubleEq(0.6)), Optional(DoubleEq(0.3))));
  EXPECT_THAT(steps[0].bubble_ratio, Optional(DoubleEq(0.55)));
}

TEST(UtilizationOfTest, StagesOfOneWorkerShareTheirs) {
  PipelineTrace trace{.name = "t", .stages = {{.worker = 0}, {.worker = 1}, {.worker = 0}}, .steps = {{1, 0, 10}}};
  trace.spans = {Span(SpanKind::kForward, 0, 0, 0, 2), Span(SpanKind::kForward, 1, 0, 2, 3),
                 Span(SpanKind::kForward, 2, 0, 3, 6)};
  const StepUtilization step = UtilizationOf(trace).front();
  EXPECT_THAT(step.stages, ElementsAre(Optional(DoubleEq(0.5)), Optional(DoubleEq(0.1)), Optional(DoubleEq(0.5))));
  EXPECT_THAT(step.bubble_ratio, Optional(DoubleEq(0.7)));
}

TEST(UtilizationOfTest, NothingIsSaidOfAWorkerThatIsMissing) {
  PipelineTrace trace{.name = "t", .stages = {{.worker = 0}, {.worker = 1, .missing = "gone"}}, .steps = {{1, 0, 4}}};
  trace.spans = {Span(SpanKind::kForward, 0, 0, 0, 1)};
  const StepUtilization step = UtilizationOf(trace).front();
  EXPECT_THAT(step.stages, ElementsAre(Optional(DoubleEq(0.25)), std::nullopt));
  EXPECT_THAT(step.bubble_ratio, Optional(DoubleEq(0.75)));
}

TEST(UtilizationOfTest, AStepThatTookNoTimeHasNone) {
  PipelineTrace trace{.name = "t", .stages = {{.worker = 0}}, .steps = {{1, 2, 2}}};
  trace.spans = {Span(SpanKind::kForward, 0, 0, 2, 2)};
  const StepUtilization step = UtilizationOf(trace).front();
  EXPECT_THAT(step.stages, ElementsAre(std::nullopt));
  EXPECT_EQ(step.bubble_ratio, std::nullopt);
}

}  // namespace
}  // namespace stagecoach
