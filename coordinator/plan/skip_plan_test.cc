// Plans of jobs with skip connections, lowered and proven.

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/skip_connections.h"
#include "coordinator/plan/planner.h"
#include "coordinator/plan/testing/tiny_job.h"
#include "coordinator/schedule/schedule.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using testing::TinySpec;

// Of the tiny example's sixteen blocks: nested, one behind another, and from the first layer to the last.
const std::vector<std::string> kConnectionSets = {
    "[{from: transformer.h.0, to: transformer.h.15}, {from: transformer.h.1, to: transformer.h.14}, "
    "{from: transformer.h.6, to: transformer.h.9}]",
    "[{from: transformer.h.0, to: transformer.h.5}, {from: transformer.h.5, to: transformer.h.10}, "
    "{from: transformer.h.10, to: transformer.h.15}]",
    "[{from: transformer.wte, to: lm_head}]"};

v1::JobSpec SkipSpec(const std::string& connections, const std::vector<SpecOverride>& more) {
  std::vector<SpecOverride> overrides = {{"model.skip_connections", connections},
                                         {"model.config.tie_word_embeddings", "false"}};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return TinySpec(overrides);
}

// The edges of the plan are those that are timed.
void ExpectTimedEdges(const PlannedJob& job) {
  std::vector<std::string> planned, timed;
  for (const SkipEdge& edge : SkipEdgesOf(job.graph, job.plan, /*trains=*/true)) {
    planned.push_back(absl::StrCat(edge.from_stage, ">", edge.to_stage));
  }
  for (const SkipCost& cost : job.cut.schedule_problem.skip_edges) {
    timed.push_back(absl::StrCat(cost.from_stage, ">", cost.to_stage));
    EXPECT_GT(cost.seconds, 0);
  }
  for (const SkipCost& cost : job.cut.schedule_problem.skip_edges) {
    if (cost.has_gradient) timed.push_back(absl::StrCat(cost.to_stage, ">", cost.from_stage));
  }
  std::sort(planned.begin(), planned.end());
  std::sort(timed.begin(), timed.end());
  EXPECT_EQ(planned, timed);
  EXPECT_FALSE(planned.empty());
}

TEST(SkipPlanTest, EveryScheduleIsPlanned) {
  for (const Schedule* schedule : AllSchedules()) {
    if (schedule->forward_only()) continue;
    for (const std::string& connections : kConnectionSets) {
      for (const char* recomputation : {"none", "full"}) {
        for (const char* frozen : {"[]", "[transformer.wte, transformer.h.0-5]"}) {
          SCOPED_TRACE(absl::StrCat(schedule->name(), " ", connections, " ", recomputation, " ", frozen));
          const v1::JobSpec spec = SkipSpec(connections, {{"parallelism.schedule", std::string(schedule->name())},
                                                          {"parallelism.activation_checkpointing", recomputation},
                                                          {"model.frozen_layers", frozen}});
          const absl::StatusOr<PlannedJob> job = PlanJob(spec, std::vector<WorkerProfile>(3));
          ASSERT_TRUE(job.ok()) << job.status();
          EXPECT_GE(job->plan.step_seconds(), job->plan.lower_bound_seconds());
          ExpectTimedEdges(*job);
        }
      }
    }
  }
}

// The partitioner reckons with more buffers than lowering finds needed.
TEST(SkipPlanTest, AJobFitsIntoWhatItsPlanNeeds) {
  for (const char* schedule : {"1f1b", "gpipe", "zb_h1"}) {
    for (const size_t num_workers : {2u, 3u, 4u}) {
      SCOPED_TRACE(absl::StrCat(schedule, " on ", num_workers));
      const v1::JobSpec spec = SkipSpec(kConnectionSets[0], {{"parallelism.schedule", schedule}});
      std::vector<WorkerProfile> workers(num_workers);
      const absl::StatusOr<PlannedJob> roomy = PlanJob(spec, workers);
      ASSERT_TRUE(roomy.ok()) << roomy.status();
      for (WorkerProfile& worker : workers) worker.memory_bytes = testing::MostNeeded(*roomy);
      const absl::StatusOr<PlannedJob> exact = PlanJob(spec, workers);
      ASSERT_TRUE(exact.ok()) << exact.status();
      EXPECT_LE(testing::MostNeeded(*exact), testing::MostNeeded(*roomy));
    }
  }
}

TEST(SkipPlanTest, ASearchedOrderIsLoweredAgainAsItWas) {
  const v1::JobSpec spec = SkipSpec(kConnectionSets[0], {{"data.validation_fraction", "0.5"}});
  const std::vector<WorkerProfile> workers(4);
  const absl::StatusOr<PlannedJob> job = PlanJob(spec, workers);
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_TRUE(job->order.has_value()) << job->plan.schedule();
  const absl::StatusOr<PlannedJob> again = LowerAgain(spec, job->plan, *job->order, workers);
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_EQ(again->programs.size(), job->programs.size());
  for (size_t rank = 0; rank < job->programs.size(); ++rank) {
    EXPECT_EQ(again->programs[rank].content_hash(), job->programs[rank].content_hash());
    EXPECT_EQ(again->evaluation_programs[rank].content_hash(), job->evaluation_programs[rank].content_hash());
  }
}

}  // namespace
}  // namespace stagecoach
