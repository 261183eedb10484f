// What PlanJob chooses from: schedules, and micro-batch sizes where the specification has none.

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/plan/layer_costs.h"
#include "coordinator/plan/micro_batch_sizes.h"
#include "coordinator/plan/planner.h"
#include "coordinator/plan/testing/small_job.h"
#include "coordinator/plan/testing/tiny_job.h"
#include "coordinator/spec/model_graph.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using testing::EqualWorkers;
using ::testing::HasSubstr;
using testing::MostNeeded;
using testing::TinySpec;

TEST(PlannerChoiceTest, ThePlanHasTheSchedulesThatWereComparedBestFirst) {
  const absl::StatusOr<PlannedJob> job = PlanJobWith(TinySpec(), EqualWorkers(3), {.searches_order = false});
  ASSERT_TRUE(job.ok()) << job.status();
  const v1::Plan& plan = job->plan;
  ASSERT_EQ(plan.candidates_size(), 8);
  EXPECT_EQ(plan.candidates(0).schedule(), plan.schedule());
  EXPECT_EQ(plan.candidates(0).virtual_stages() * 3, static_cast<uint32_t>(plan.stages_size()));
  EXPECT_EQ(plan.candidates(0).step_seconds(), plan.step_seconds());
  EXPECT_EQ(plan.candidates(0).bubble_ratio(), plan.bubble_ratio());
  EXPECT_EQ(plan.candidates(0).memory_bytes(), MostNeeded(*job));
  double before = 0;
  for (const v1::PlanCandidate& candidate : plan.candidates()) {
    EXPECT_EQ(candidate.why_not(), "") << candidate.schedule();
    EXPECT_GE(candidate.step_seconds(), before);
    EXPECT_GT(candidate.memory_bytes(), 0u);
    before = candidate.step_seconds();
  }
  const absl::StatusOr<PlannedJob> named = PlanJob(TinySpec({{"parallelism.schedule", "gpipe"}}), EqualWorkers(2));
  ASSERT_TRUE(named.ok()) << named.status();
  ASSERT_EQ(named->plan.candidates_size(), 1);
  EXPECT_EQ(named->plan.candidates(0).schedule(), "gpipe");
}

// Which the partitioner reckons to need more.
TEST(PlannerChoiceTest, StagesOfOneWorkerThatTakeTurnsInItsMemoryFit) {
  const v1::JobSpec spec = TinySpec({{"parallelism.schedule", "interleaved"}, {"parallelism.virtual_stages", "4"}});
  const absl::StatusOr<PlannedJob> roomy = PlanJob(spec, EqualWorkers(3));
  ASSERT_TRUE(roomy.ok()) << roomy.status();
  const uint64_t needed = MostNeeded(*roomy);
  ASSERT_LT(needed, roomy->cut.peak_bytes);
  const absl::StatusOr<PlannedJob> exact = PlanJob(spec, EqualWorkers(3, needed));
  ASSERT_TRUE(exact.ok()) << exact.status();
  EXPECT_EQ(MostNeeded(*exact), needed);
  EXPECT_EQ(exact->plan.step_seconds(), roomy->plan.step_seconds());
  const absl::StatusOr<PlannedJob> tighter = PlanJob(spec, EqualWorkers(3, needed - needed / 50));
  ASSERT_TRUE(tighter.ok()) << tighter.status();
  EXPECT_LE(MostNeeded(*tighter), needed - needed / 50);
}

TEST(PlannerChoiceTest, CandidatesThatDoNotFitSayWhy) {
  const absl::StatusOr<PlannedJob> roomy = PlanJob(TinySpec(), EqualWorkers(6));
  ASSERT_TRUE(roomy.ok()) << roomy.status();
  uint64_t least = UINT64_MAX;
  for (const v1::PlanCandidate& candidate : roomy->plan.candidates()) {
    if (candidate.why_not().empty()) least = std::min(least, candidate.memory_bytes());
  }
  const absl::StatusOr<PlannedJob> tight = PlanJob(TinySpec(), EqualWorkers(6, least));
  ASSERT_TRUE(tight.ok()) << tight.status();
  EXPECT_LE(MostNeeded(*tight), least);
  std::map<std::string, v1::PlanCandidate> by_name;
  for (const v1::PlanCandidate& candidate : tight->plan.candidates()) {
    by_name[absl::StrCat(candidate.schedule(), " ", candidate.virtual_stages())] = candidate;
    EXPECT_LE(candidate.memory_bytes(), least) << candidate.schedule();
  }
  EXPECT_THAT(by_name["interleaved 4"].why_not(), HasSubstr("24 stages (6 workers x 4) for 16 transformer blocks"));
  EXPECT_THAT(by_name["gpipe 1"].why_not(), HasSubstr("its best cut lacks "));
  EXPECT_EQ(by_name["gpipe 1"].step_seconds(), 0);
}

v1::JobSpec WithoutMicroBatchSize() { return TinySpec({{"training.micro_batch_size", "auto"}}); }

TEST(PlannerChoiceTest, ChoosesTheMicroBatchSizeWithTheShortestStep) {
  const absl::StatusOr<PlannedJob> job = PlanJob(WithoutMicroBatchSize(), EqualWorkers(2));
  ASSERT_TRUE(job.ok()) << job.status();
  const uint64_t chosen = job->graph.micro_batch_size();
  EXPECT_EQ(job->plan.num_micro_batches() * chosen, 16u);
  for (const uint64_t size : {1U, 2U, 4U, 8U}) {
    const absl::StatusOr<PlannedJob> other =
        PlanJob(TinySpec({{"training.micro_batch_size", absl::StrCat(size)}}), EqualWorkers(2));
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_LE(job->plan.step_seconds(), other->plan.step_seconds()) << size;
    if (size == chosen) {
      EXPECT_EQ(job->plan.SerializeAsString(), other->plan.SerializeAsString());
    }
  }
}

// On which a call takes a millisecond for each sample, or whatever its samples, as two sizes have shown.
std::vector<WorkerProfile> MeasuredWorkers(size_t count, bool constant, uint64_t memory_bytes = 0) {
  LayerCosts costs;
  for (const uint64_t size : {1U, 8U}) {
    const v1::ModelGraph graph = *BuildModelGraph(WithMicroBatchSize(WithoutMicroBatchSize(), size));
    for (const v1::LayerSpec& layer : graph.layers()) {
      const double seconds = constant ? 1e-3 : 1e-3 * static_cast<double>(size);
      costs.Add(LayerShape(layer, graph.seq_len()), size, {seconds, seconds, seconds});
    }
  }
  std::vector<WorkerProfile> workers = EqualWorkers(count, memory_bytes);
  for (WorkerProfile& worker : workers) worker.measured = std::make_shared<const LayerCosts>(costs);
  return workers;
}

TEST(PlannerChoiceTest, ChoosesTheMicroBatchSizeByMeasuredCostsOnALineThroughThem) {
  for (const bool constant : {false, true}) {
    const absl::StatusOr<PlannedJob> job = PlanJob(WithoutMicroBatchSize(), MeasuredWorkers(2, constant));
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_TRUE(job->plan.measured_costs());
    EXPECT_EQ(job->graph.micro_batch_size(), constant ? 8u : 1u);
  }
}

TEST(PlannerChoiceTest, ChoosesASmallerMicroBatchSizeWhenMemoryIsShort) {
  constexpr uint64_t kMemoryBytes = 56 << 20;
  const std::vector<WorkerProfile> workers = MeasuredWorkers(2, /*constant=*/true, kMemoryBytes);
  const v1::JobSpec largest = WithMicroBatchSize(WithoutMicroBatchSize(), 8);
  ASSERT_EQ(PlanJob(largest, workers).status().code(), absl::StatusCode::kResourceExhausted);
  const absl::StatusOr<PlannedJob> job = PlanJob(WithoutMicroBatchSize(), workers);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_LT(job->graph.micro_batch_size(), 8u);
  for (const v1::StagePlan& stage : job->plan.stages()) EXPECT_LE(stage.memory_bytes().total(), kMemoryBytes);
}

TEST(PlannerChoiceTest, AJobThatFitsWithNoMicroBatchSizeSaysWhatItsSmallestLacks) {
  const absl::StatusOr<PlannedJob> job = PlanJob(WithoutMicroBatchSize(), EqualWorkers(2, 1 << 20));
  EXPECT_EQ(job.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(job.status(), PlanJob(TinySpec({{"training.micro_batch_size", "1"}}), EqualWorkers(2, 1 << 20)).status());
}

TEST(PlannerChoiceTest, ABatchWithoutDivisorsIsRefused) {
  v1::JobSpec spec = WithoutMicroBatchSize();
  spec.mutable_training()->set_global_batch_size(65'537);
  EXPECT_THAT(std::string(PlanJob(spec, EqualWorkers(2)).status().message()),
              HasSubstr("training.micro_batch_size auto"));
}

}  // namespace
}  // namespace stagecoach
