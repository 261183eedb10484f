// Choices for models with skip connections, before anything is lowered.

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/plan/plan_advice.h"
#include "coordinator/plan/schedule_choice.h"
#include "coordinator/plan/testing/small_job.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using testing::EqualWorkers;
using testing::SmallCutRequest;

// Of sixteen blocks: the first to the last, the second to the last but one, and so on.
CutRequest NestedRequest(const std::vector<WorkerProfile>& workers) {
  CutRequest request = SmallCutRequest(workers);
  for (uint32_t layer = 1; layer <= 7; ++layer) {
    v1::SkipConnection& connection = *request.graph.add_skip_connections();
    connection.set_from_layer(layer);
    connection.set_to_layer(17 - layer);
  }
  return request;
}

std::vector<WorkerProfile> SlowLinks(size_t num_workers, double bytes_per_second) {
  std::vector<WorkerProfile> workers = EqualWorkers(num_workers);
  for (WorkerProfile& worker : workers) worker.hop_bytes_per_second = bytes_per_second;
  return workers;
}

std::vector<ScheduleOption> Options(const std::vector<std::string>& names) {
  std::vector<ScheduleOption> options;
  for (const std::string& name : names) {
    const Schedule* schedule = *FindSchedule(name);
    options.push_back({schedule, schedule->default_chunks()});
  }
  return options;
}

TEST(SkipChoiceTest, SkipEdgesAreTimedWithThePlan) {
  const std::vector<WorkerProfile> workers = SlowLinks(4, 1e7);
  const ScheduledCut without = *CutForSchedule(SmallCutRequest(workers), Options({"1f1b"})[0]);
  EXPECT_TRUE(without.schedule_problem.skip_edges.empty());
  const CutRequest request = NestedRequest(workers);
  const ScheduledCut cut = *CutForSchedule(request, Options({"1f1b"})[0]);
  ASSERT_EQ(cut.schedule_problem.skip_edges.size(), 2u);
  const SkipCost& outer = cut.schedule_problem.skip_edges[0];
  EXPECT_EQ(outer.from_stage, 0u);
  EXPECT_EQ(outer.to_stage, 3u);
  EXPECT_TRUE(outer.has_gradient);
  const double of_chain = cut.schedule_problem.edge_seconds[0];
  EXPECT_NEAR(outer.seconds / of_chain, 4, 1e-9);  // blocks of stage 0
  EXPECT_GT(cut.timeline.makespan, without.timeline.makespan);
  EXPECT_GE(cut.timeline.makespan, cut.timeline.lower_bound);
  EXPECT_GT(cut.peak_bytes, without.peak_bytes);
}

TEST(SkipChoiceTest, LinksThatAreFastEnoughLeaveTheStepAsItIs) {
  const std::vector<WorkerProfile> workers = SlowLinks(4, 1e11);
  for (const char* schedule : {"gpipe", "1f1b", "zb_h1", "zb_v"}) {
    const ScheduledCut without = *CutForSchedule(SmallCutRequest(workers), Options({schedule})[0]);
    const ScheduledCut cut = *CutForSchedule(NestedRequest(workers), Options({schedule})[0]);
    EXPECT_EQ(cut.partition.stages, without.partition.stages) << schedule;
    EXPECT_NEAR(cut.step_seconds(), without.step_seconds(), 1e-3 * without.step_seconds()) << schedule;
  }
}

// A search leaves skip edges out, and where links are slow what it finds can be worse than what it began with.
TEST(SkipChoiceTest, NothingThatWasTriedIsBetterThanWhatIsChosen) {
  for (const double bytes_per_second : {1e11, 3e8, 1e8, 3e7, 1e7}) {
    SCOPED_TRACE(bytes_per_second);
    CutRequest request = NestedRequest(SlowLinks(4, bytes_per_second));
    request.searches_order = true;
    const absl::StatusOr<ScheduleChoice> choice =
        ChooseSchedule(request, Options({"1f1b", "zb_h1", "gpipe"}),
                       [](const ScheduledCut& cut) { return std::vector<uint64_t>(cut.problem.workers.size()); });
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_EQ(choice->cut.timeline.makespan, Simulate(choice->cut.table, choice->cut.schedule_problem)->makespan);
    EXPECT_EQ(choice->candidates[0].step_seconds, choice->cut.step_seconds());
    ASSERT_EQ(choice->candidates.size(), 4u);
    for (const ScheduleCandidate& candidate : choice->candidates) {
      ASSERT_TRUE(candidate.status.ok()) << candidate.status;
      const double least = candidate.gains_too_little ? 1 - kLeastGainOfOrder : 1;
      EXPECT_GE(candidate.step_seconds, choice->cut.step_seconds() * least) << candidate.schedule;
    }
  }
}

// Of nine blocks the last would go to the stage that has seven, were it not for a third connection that would then lead
// from stage to stage.
TEST(SkipChoiceTest, AMoveIsTimedWithTheSkipEdgesThatItBrings) {
  using Connections = std::vector<std::pair<uint32_t, uint32_t>>;
  const auto advice = [](const Connections& connections) {
    CutRequest request = SmallCutRequest(SlowLinks(2, 1e7));
    request.partition.set_kind(v1::PartitionSpec::KIND_LAYERS);
    for (const uint32_t blocks : {9U, 7U}) request.partition.add_num_blocks(blocks);
    for (const auto& [from, to] : connections) {
      v1::SkipConnection& connection = *request.graph.add_skip_connections();
      connection.set_from_layer(from);
      connection.set_to_layer(to);
    }
    PlannedJob job;
    job.graph = request.graph;
    job.cut = *CutForSchedule(request, Options({"1f1b"})[0]);
    job.plan.set_schedule("1f1b");
    return AdviseOn(job);
  };
  const PlanAdvice two = advice({{2, 12}, {3, 13}});
  const PlanAdvice three = advice({{1, 9}, {2, 12}, {3, 13}});
  EXPECT_EQ(three.step_seconds, two.step_seconds);
  EXPECT_EQ(two.best_move->layer, 9u);
  EXPECT_NE(three.best_move->layer, 9u);
  EXPECT_GT(three.best_move->step_seconds, two.best_move->step_seconds);
}

}  // namespace
}  // namespace stagecoach
