// Plans whose order follows from no schedule's name: it was searched, or is the user's own.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/plan/cost_model.h"
#include "coordinator/plan/layer_costs.h"
#include "coordinator/plan/planner.h"
#include "coordinator/plan/testing/small_job.h"
#include "coordinator/plan/testing/tiny_job.h"
#include "coordinator/schedule/compute_csv.h"
#include "coordinator/schedule/pruned_table.h"
#include "coordinator/schedule/recomputing_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using testing::EqualWorkers;
using ::testing::HasSubstr;
using testing::MostNeeded;
using testing::TinySpec;

// Workers that have measured: a head as heavy as many blocks, a backward of little work.
std::vector<WorkerProfile> MeasuredWorkers(const v1::ModelGraph& graph, size_t count) {
  LayerCosts costs;
  for (const v1::LayerSpec& layer : graph.layers()) {
    const bool is_head = layer.kind() == v1::LAYER_KIND_LANGUAGE_MODEL_HEAD;
    costs.Add(LayerShape(layer, graph.seq_len()), graph.micro_batch_size(),
              {is_head ? 9e-3 : 1e-3, is_head ? 2e-3 : 3e-4, 5e-4});
  }
  std::vector<WorkerProfile> workers = EqualWorkers(count);
  for (WorkerProfile& worker : workers) worker.measured = std::make_shared<const LayerCosts>(costs);
  return workers;
}

std::vector<std::string> Hashes(const PlannedJob& job) {
  std::vector<std::string> hashes;
  for (const v1::StageProgram& program : job.programs) hashes.push_back(program.content_hash());
  for (const v1::StageProgram& program : job.evaluation_programs) hashes.push_back(program.content_hash());
  return hashes;
}

TEST(PlannedOrderTest, AutoTakesAnOrderThatIsShorterThanEverySchedule) {
  const absl::StatusOr<PlannedJob> job = PlanJob(TinySpec(), EqualWorkers(4));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->plan.schedule(), "auto");
  EXPECT_EQ(job->programs[0].schedule(), "auto");
  ASSERT_TRUE(job->order.has_value());
  EXPECT_EQ(job->order->SerializeAsString(), job->cut.table.SerializeAsString());
  const absl::StatusOr<PlannedJob> without = PlanJobWith(TinySpec(), EqualWorkers(4), {.searches_order = false});
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_FALSE(without->order.has_value());
  EXPECT_LT(job->plan.step_seconds(), without->plan.step_seconds() * (1 - kLeastGainOfOrder));
  EXPECT_GE(job->plan.step_seconds(), job->plan.lower_bound_seconds());
  ASSERT_EQ(job->plan.candidates_size(), without->plan.candidates_size() + 1);
  EXPECT_EQ(job->plan.candidates(0).schedule(), "auto");
  EXPECT_EQ(job->plan.candidates(0).step_seconds(), job->plan.step_seconds());
  EXPECT_EQ(job->plan.candidates(1).schedule(), without->plan.schedule());
  EXPECT_EQ(job->plan.candidates(1).virtual_stages(), job->plan.candidates(0).virtual_stages());
}

TEST(PlannedOrderTest, AnOrderThatGainsTooLittleSaysSo) {
  const absl::StatusOr<PlannedJob> job = PlanJob(TinySpec(), EqualWorkers(2));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_FALSE(job->order.has_value());
  const auto& candidates = job->plan.candidates();
  const auto searched = std::find_if(candidates.begin(), candidates.end(),
                                     [](const v1::PlanCandidate& each) { return each.schedule() == "auto"; });
  ASSERT_NE(searched, candidates.end());
  EXPECT_LT(searched->step_seconds(), job->plan.step_seconds());
  EXPECT_EQ(searched->why_not(), "gains less than 0.2%");
}

TEST(PlannedOrderTest, LoweredAgainItIsTheSameWhateverIsKnownOfCosts) {
  for (const char* kept : {"none", "full"}) {
    SCOPED_TRACE(kept);
    const v1::JobSpec spec =
        TinySpec({{"parallelism.activation_checkpointing", kept}, {"data.validation_fraction", "0.5"}});
    const absl::StatusOr<PlannedJob> job = PlanJob(spec, EqualWorkers(3));
    ASSERT_TRUE(job.ok()) << job.status();
    ASSERT_TRUE(job->order.has_value());
    EXPECT_EQ(job->evaluation_programs.size(), 3u);
    const std::vector<WorkerProfile> measured = MeasuredWorkers(job->graph, 3);
    const absl::StatusOr<PlannedJob> other = PlanJob(spec, measured);
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_NE(Hashes(*other), Hashes(*job));
    const absl::StatusOr<PlannedJob> again = LowerAgain(spec, job->plan, *job->order, measured);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(Hashes(*again), Hashes(*job));
    EXPECT_EQ(again->plan.SerializeAsString(), job->plan.SerializeAsString());
    EXPECT_EQ(again->order->SerializeAsString(), job->order->SerializeAsString());
    EXPECT_EQ(again->graph.layers_size(), job->graph.layers_size());
  }
}

// Which layers recompute is in the plan: with other costs others would be chosen.
TEST(PlannedOrderTest, LoweredAgainItRecomputesTheSameLayers) {
  const v1::JobSpec spec =
      TinySpec({{"parallelism.activation_checkpointing", "selective"}, {"parallelism.virtual_stages", "1"}});
  v1::JobSpec of_1f1b = spec;
  of_1f1b.mutable_parallelism()->set_schedule("1f1b");  // which needs least
  const uint64_t memory = MostNeeded(*PlanJob(of_1f1b, EqualWorkers(3))) * 9 / 10;
  const absl::StatusOr<PlannedJob> job = PlanJob(spec, EqualWorkers(3, memory));
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_TRUE(job->order.has_value()) << job->plan.schedule();
  const std::vector<bool> recomputes = RecomputingStages(*job->order);
  EXPECT_EQ(std::count(recomputes.begin(), recomputes.end(), true),
            std::count_if(job->plan.stages().begin(), job->plan.stages().end(),
                          [](const v1::StagePlan& stage) { return !stage.recomputed_layers().empty(); }));
  EXPECT_GT(std::count(recomputes.begin(), recomputes.end(), true), 0);
  const absl::StatusOr<PlannedJob> again = LowerAgain(spec, job->plan, *job->order, EqualWorkers(3, memory));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Hashes(*again), Hashes(*job));
}

// A search knows of whole stages alone.
TEST(PlannedOrderTest, AnOrderThatIsSearchedLeavesOutWhatFrozenLayersDo) {
  int num_searched = 0;
  for (const char* frozen : {"[transformer.wte, transformer.h.0-5, lm_head]", "[transformer.h.4-9]"}) {
    SCOPED_TRACE(frozen);
    const v1::JobSpec spec = TinySpec({{"model.frozen_layers", frozen}});
    const absl::StatusOr<PlannedJob> job = PlanJob(spec, EqualWorkers(4));
    ASSERT_TRUE(job.ok()) << job.status();
    if (!job->order.has_value()) continue;
    ++num_searched;
    EXPECT_EQ(BackwardOfTable(*job->order), BackwardOfStages(job->graph, job->cut.partition.stages));
    const absl::StatusOr<PlannedJob> again = LowerAgain(spec, job->plan, *job->order, EqualWorkers(4));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(Hashes(*again), Hashes(*job));
  }
  EXPECT_GT(num_searched, 0);
}

TEST(PlannedOrderTest, AnOrderThatIsNotOfThePlanIsRefused) {
  const v1::JobSpec spec = TinySpec();
  const absl::StatusOr<PlannedJob> job = PlanJob(spec, EqualWorkers(4));
  ASSERT_TRUE(job.ok() && job->order.has_value()) << job.status();
  EXPECT_THAT(std::string(LowerAgain(spec, job->plan, *job->order, EqualWorkers(3)).status().message()),
              HasSubstr("an order for 4 workers, and there are 3"));
  v1::ComputeTable swapped = *job->order;
  swapped.mutable_workers()->SwapElements(0, 1);
  EXPECT_EQ(LowerAgain(spec, job->plan, swapped, EqualWorkers(4)).status().code(), absl::StatusCode::kInvalidArgument);
  v1::ComputeTable fewer = *job->order;
  fewer.set_num_micro_batches(7);
  EXPECT_EQ(LowerAgain(spec, job->plan, fewer, EqualWorkers(4)).status().code(), absl::StatusCode::kInvalidArgument);
  const uint64_t needed = MostNeeded(*job);
  EXPECT_TRUE(LowerAgain(spec, job->plan, *job->order, EqualWorkers(4, needed)).ok());
  EXPECT_THAT(std::string(LowerAgain(spec, job->plan, *job->order, EqualWorkers(4, needed - 1)).status().message()),
              HasSubstr(std::to_string(needed - 1)));
}

// The specification with an order of the user's own, resolved.
v1::JobSpec WithOrder(const v1::JobSpec& spec, const v1::ComputeTable& order) {
  v1::JobSpec with = spec;
  v1::ParallelismSpec& parallelism = *with.mutable_parallelism();
  parallelism.set_schedule("csv");
  *parallelism.mutable_order() = order;
  parallelism.mutable_order()->set_schedule("csv");
  parallelism.set_pipeline_parallel_degree(static_cast<uint32_t>(order.workers_size()));
  parallelism.set_virtual_stages(order.num_stages() / static_cast<uint32_t>(order.workers_size()));
  return with;
}

TEST(PlannedOrderTest, AnOrderOfTheUsersOwnIsPlannedLikeTheScheduleThatItIs) {
  for (const char* name : {"1f1b", "zb_h1", "interleaved", "zb_v"}) {
    for (const char* kept : {"none", "full"}) {
      SCOPED_TRACE(std::string(name) + " " + kept);
      const v1::JobSpec spec =
          TinySpec({{"parallelism.schedule", name}, {"parallelism.activation_checkpointing", kept}});
      const absl::StatusOr<PlannedJob> named = PlanJob(spec, EqualWorkers(3));
      ASSERT_TRUE(named.ok()) << named.status();
      v1::ComputeTable order = named->cut.table;
      for (v1::WorkerActions& row : *order.mutable_workers()) {  // R is not for the user to place
        v1::WorkerActions without;
        for (const v1::Action& action : row.actions()) {
          if (action.kind() != v1::ACTION_KIND_RECOMPUTE) *without.add_actions() = action;
        }
        row = without;
      }
      const absl::StatusOr<PlannedJob> own = PlanJob(WithOrder(spec, order), EqualWorkers(3));
      ASSERT_TRUE(own.ok()) << own.status();
      EXPECT_EQ(own->plan.schedule(), "csv");
      EXPECT_FALSE(own->order.has_value());  // it is in the specification
      EXPECT_EQ(own->plan.step_seconds(), named->plan.step_seconds());
      ASSERT_EQ(own->programs.size(), named->programs.size());
      for (size_t rank = 0; rank < own->programs.size(); ++rank) {
        EXPECT_EQ(own->programs[rank].schedule(), "csv");
        v1::StageProgram renamed = own->programs[rank];
        renamed.set_schedule(name);
        renamed.set_content_hash(named->programs[rank].content_hash());
        EXPECT_EQ(renamed.SerializeAsString(), named->programs[rank].SerializeAsString());
      }
    }
  }
}

std::string RefusalOf(const v1::JobSpec& spec, size_t num_workers) {
  const absl::Status status = PlanJob(spec, EqualWorkers(num_workers)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(PlannedOrderTest, AnOrderThatCannotRunIsRefusedByTheNameOfItsKey) {
  const v1::JobSpec spec = TinySpec({{"training.global_batch_size", "4"}});  // two micro-batches
  const auto with = [&](const std::string& csv) { return WithOrder(spec, *ParseComputeCsv(csv, "csv")); };
  const v1::JobSpec good = with("0F0,0F1,0B0,0I1,0W1\n1F0,1B0,1F1,1I1,1W1\n");
  EXPECT_TRUE(PlanJob(good, EqualWorkers(2)).ok()) << PlanJob(good, EqualWorkers(2)).status();
  EXPECT_TRUE(PlanJob(good, EqualWorkers(3)).ok());  // of which it uses two
  EXPECT_THAT(RefusalOf(good, 1),
              HasSubstr("the order of parallelism.schedule is for 2 workers and 1 are free; start 1 more"));
  EXPECT_THAT(RefusalOf(with("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n"), 2),
              HasSubstr("the order of parallelism.schedule: these never begin, since each waits for another or for "
                        "what nothing makes: "));
  EXPECT_THAT(RefusalOf(with("0F0,0F1,0I0,0I1,0W1,0W0\n1F0,1F1,1B0,1B1\n"), 2), HasSubstr("0W1"));
  v1::JobSpec other_batch = good;
  other_batch.mutable_training()->set_global_batch_size(8);
  EXPECT_THAT(RefusalOf(other_batch, 2), HasSubstr("2 micro-batch(es), not of 2 x 1 and 4"));
  v1::JobSpec twice = good;
  *twice.mutable_parallelism()->mutable_order()->mutable_workers(1)->add_actions() =
      good.parallelism().order().workers(1).actions(0);
  EXPECT_THAT(RefusalOf(twice, 2), HasSubstr("the order of parallelism.schedule: line 2"));
}

TEST(PlannedOrderTest, ANamedScheduleIsNotSearched) {
  const absl::StatusOr<PlannedJob> job = PlanJob(TinySpec({{"parallelism.schedule", "1f1b"}}), EqualWorkers(4));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->plan.schedule(), "1f1b");
  EXPECT_FALSE(job->order.has_value());
  EXPECT_EQ(job->plan.candidates_size(), 1);
}

}  // namespace
}  // namespace stagecoach
