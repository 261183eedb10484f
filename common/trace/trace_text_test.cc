#include "common/trace/trace_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_split.h"

namespace stagecoach {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::Not;

// 40 columns leave 40 - 8 - 2 - 7 = 23 for the step.
constexpr int kWidth = 23;

TraceSpan Span(SpanKind kind, uint32_t stage, std::optional<uint32_t> micro_batch, double begin, double end) {
  return {.kind = kind, .name = "", .stage = stage, .micro_batch = micro_batch, .step = 1, .begin = begin, .end = end};
}

// One stage for `kWidth` seconds: a column is a second.
PipelineTrace TraceOf(std::vector<TraceSpan> spans) {
  return {.name = "t", .stages = {{.worker = 0}}, .steps = {{1, 0, kWidth}}, .spans = std::move(spans)};
}

std::vector<std::string> Lines(const PipelineTrace& trace, TraceTextStyle style = {.columns = 40}) {
  return absl::StrSplit(DrawTrace(trace, style), '\n');
}

std::string Row(std::vector<TraceSpan> spans) { return Lines(TraceOf(std::move(spans)))[1]; }

TEST(TraceTextTest, DrawsAStepOneLineAStage) {
  PipelineTrace trace{.name = "t", .stages = {{.worker = 0}, {.worker = 1}}, .steps = {{1, 0, kWidth}}};
  trace.spans = {Span(SpanKind::kUpdate, 0, std::nullopt, 0, 2),
                 Span(SpanKind::kForward, 0, 0, 2, 6),
                 Span(SpanKind::kForward, 0, 12, 6, 10),
                 Span(SpanKind::kWait, 0, 0, 10, 14),
                 Span(SpanKind::kBackwardInput, 0, 0, 14, 18),
                 Span(SpanKind::kBackwardWeight, 0, 0, 18, 20),
                 Span(SpanKind::kLoad, 1, 0, 0, 1),
                 Span(SpanKind::kOther, 1, std::nullopt, 1, 3),
                 Span(SpanKind::kBackward, 1, 0, 10, 23)};
  EXPECT_THAT(Lines(trace), testing::ElementsAre("step 1: 23.000 s, bubble 32.6%; a column is 1e+03 ms",
                                                 "stage 0 |U=F0==F12=~~~~I0==W0...|  69.6%",
                                                 "stage 1 |L++.......B0===========|  65.2%", "",
                                                 "F forward, B backward, I backward for the input, W backward for the "
                                                 "weights, U update, L data, + other, ~ waits "
                                                 "for a transfer, . idle",
                                                 ""));
}

TEST(TraceTextTest, ANumberThatDoesNotFitIsLeftOut) {
  EXPECT_THAT(Row({Span(SpanKind::kForward, 0, 5, 0, 1), Span(SpanKind::kForward, 0, 6, 1, 3),
                   Span(SpanKind::kForward, 0, 123, 3, 6)}),
              HasSubstr("|FF6F==.."));
}

TEST(TraceTextTest, AColumnShowsWhatTakesMostOfIt) {
  EXPECT_THAT(Row({Span(SpanKind::kForward, 0, 0, 0, 0.3), Span(SpanKind::kBackwardInput, 0, 0, 0.3, 1),
                   Span(SpanKind::kForward, 0, 1, 1.2, 1.6), Span(SpanKind::kForward, 0, 2, 2, 2.45)}),
              HasSubstr("|I.."));
}

TEST(TraceTextTest, WhatBeginsBeforeTheStepIsShownToo) {
  PipelineTrace trace = TraceOf({Span(SpanKind::kUpdate, 0, std::nullopt, -23, 0)});
  EXPECT_THAT(Lines(trace)[1], HasSubstr("|U===========...........|"));
}

TEST(TraceTextTest, IsAsWideAsItIsTold) {
  for (const int columns : {40, 41, 100, 317}) {
    const std::vector<std::string> lines = Lines(TraceOf({Span(SpanKind::kForward, 0, 0, 0, 5)}), {.columns = columns});
    EXPECT_EQ(lines[1].size(), static_cast<size_t>(columns));
  }
  EXPECT_EQ(Lines(TraceOf({Span(SpanKind::kForward, 0, 0, 0, 5)}), {.columns = 3})[1].size(), 40u);
}

TEST(TraceTextTest, WithoutColourThereIsNothingButAscii) {
  const std::string text = DrawTrace(TraceOf({Span(SpanKind::kForward, 0, 0, 0, 5)}), {.columns = 60});
  EXPECT_THAT(text, Each(testing::AnyOf('\n', testing::AllOf(testing::Ge(' '), testing::Le('~')))));
  EXPECT_THAT(DrawTrace(TraceOf({Span(SpanKind::kForward, 0, 0, 0, 5)}), {.columns = 60, .colour = true}),
              HasSubstr("\x1b[30;44mF0"));
}

TEST(TraceTextTest, AStageThatIsMissingSaysWhy) {
  PipelineTrace trace = TraceOf({Span(SpanKind::kForward, 0, 0, 0, 5)});
  trace.stages.push_back({.worker = 1, .missing = "it is not connected"});
  EXPECT_EQ(Lines(trace)[2], "stage 1 no trace: it is not connected");
}

TEST(TraceTextTest, AStepWithoutTimeIsNoPicture) {
  PipelineTrace trace{.name = "t", .stages = {{.worker = 0}}, .steps = {{1, 5, 5}}};
  EXPECT_EQ(Lines(trace)[0], "step 1: nothing took any time");
}

}  // namespace
}  // namespace stagecoach
