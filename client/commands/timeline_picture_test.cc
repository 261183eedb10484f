#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "client/commands/timeline_svg.h"
#include "client/commands/timeline_text.h"
#include "coordinator/program/simulator.h"
#include "coordinator/schedule/schedule.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;
using testing::Not;

Timeline Time(absl::string_view schedule, const ScheduleProblem& problem) {
  return *Simulate(*(*FindSchedule(schedule))->Build(problem), problem);
}

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(TimelineTextTest, ShowsASlotForEachUnitWhereThereIsOne) {
  EXPECT_EQ(SlotText(Time("1f1b", {.num_workers = 2, .num_micro_batches = 2}), 100),
            "worker 0   0F0 0F1 .   .   0B0---- .   0B1----\n"
            "worker 1   .   1F0 1B0---- 1F1 1B1---- .   .\n");
}

TEST(TimelineTextTest, IsScaledWhereThereIsNoUnitOrNoRoom) {
  ScheduleProblem problem{.num_workers = 2, .num_micro_batches = 2};
  EXPECT_FALSE(SlotText(Time("1f1b", problem), 40).has_value());
  problem.cost_of_stage = {{1, 1, 1}, {1.3, 1, 1}};
  const Timeline timeline = Time("1f1b", problem);
  EXPECT_FALSE(SlotText(timeline, 1000).has_value());
  const std::string text = TimelineText(timeline, 20);
  EXPECT_EQ(text.substr(0, text.find('\n')).size(), std::string("worker 0   ||").size() + 20);
  EXPECT_THAT(text, HasSubstr("A-Z: weight gradient"));
}

TEST(TimelineTextTest, ShowsWeightGradientsThatStandApart) {
  ScheduleProblem problem{.num_workers = 2, .num_micro_batches = 3};
  problem.cost_of_stage = {{1, 1, 1}, {1.25, 1, 1.1}};
  EXPECT_THAT(TimelineText(Time("zb_h1", problem), 60), testing::AllOf(HasSubstr("A"), HasSubstr("C")));
}

TEST(TimelineTextTest, NothingIsDrawnOfAStepWithoutTime) {
  ScheduleProblem problem{.num_workers = 1, .num_micro_batches = 1};
  problem.cost_of_stage = {{0, 0, 0}};
  EXPECT_EQ(TimelineText(Time("1f1b", problem), 80), "nothing takes any time\n");
  EXPECT_THAT(TimelineSvg(Time("1f1b", problem), "empty"), HasSubstr("</svg>"));
}

TEST(TimelineSvgTest, HasABarForEachActionAndTheirLegend) {
  const std::string svg = TimelineSvg(Time("1f1b", {.num_workers = 3, .num_micro_batches = 4}), "1f1b <3>");
  EXPECT_EQ(Count(svg, "<g><title>"), 3 * 4 * 2);
  EXPECT_EQ(Count(svg, "<g>"), Count(svg, "</g>"));
  EXPECT_THAT(svg, HasSubstr("1f1b &lt;3&gt;"));
  EXPECT_THAT(svg, HasSubstr("worker 2, stage 2"));
  EXPECT_THAT(svg, HasSubstr("forward (F)"));
  EXPECT_THAT(svg, HasSubstr("backward (B)"));
  EXPECT_THAT(svg, Not(HasSubstr("weight gradient (W)")));
  EXPECT_THAT(svg, Not(HasSubstr("first stage")));
  // From the first forward down, through the last worker, and up again.
  EXPECT_EQ(Count(svg, ", on the critical path</title>"), 2 + 4 * 2 + 2);
}

TEST(TimelineSvgTest, TellsStagesOfOneWorkerApart) {
  const std::string svg =
      TimelineSvg(Time("zb_v", {.num_workers = 2, .num_chunks = 2, .num_micro_batches = 4}), "zb_v");
  EXPECT_THAT(svg, HasSubstr("worker 0, stages 0, 3"));
  EXPECT_THAT(svg, HasSubstr("not the worker's first stage"));
  EXPECT_THAT(svg, HasSubstr("weight gradient (W)"));
}

}  // namespace
}  // namespace stagecoach
