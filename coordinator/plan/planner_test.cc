#include "coordinator/plan/planner.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "common/layer_memory.h"
#include "coordinator/plan/layer_costs.h"
#include "coordinator/plan/testing/small_job.h"
#include "coordinator/plan/testing/tiny_job.h"
#include "coordinator/program/lowering.h"
#include "coordinator/schedule/schedule.h"
#include "coordinator/schedule/stage_placement.h"
#include "coordinator/spec/model_graph.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using ::testing::AllOf;
using testing::EqualWorkers;
using ::testing::HasSubstr;
using testing::MostNeeded;
using testing::TinySpec;

TEST(PlannerTest, TakesMeasuredCostsWhereTheyAreKnown) {
  const v1::JobSpec spec = TinySpec({{"parallelism.schedule", "1f1b"}});
  const v1::ModelGraph graph = *BuildModelGraph(spec);
  LayerCosts costs;
  for (const v1::LayerSpec& layer : graph.layers()) {
    const bool is_head = layer.kind() == v1::LAYER_KIND_LANGUAGE_MODEL_HEAD;
    const double seconds = is_head ? 8e-3 : 1e-3;
    costs.Add(LayerShape(layer, graph.seq_len()), graph.micro_batch_size(), {seconds, seconds, seconds});
  }
  std::vector<WorkerProfile> workers = EqualWorkers(2);
  const absl::StatusOr<PlannedJob> analytic = PlanJob(spec, workers);
  for (WorkerProfile& worker : workers) worker.measured = std::make_shared<const LayerCosts>(costs);
  const absl::StatusOr<PlannedJob> measured = PlanJob(spec, workers);
  ASSERT_TRUE(analytic.ok() && measured.ok()) << measured.status();
  EXPECT_FALSE(analytic->plan.measured_costs());
  EXPECT_TRUE(measured->plan.measured_costs());
  double forward = 0;
  for (const v1::StagePlan& stage : measured->plan.stages()) forward += stage.forward_seconds();
  EXPECT_NEAR(forward, 18e-3 + 8e-3, 1e-9);
  // A head that takes as long as eight blocks gets fewer of them.
  EXPECT_GT(measured->plan.stages(0).last_layer(), analytic->plan.stages(0).last_layer());
}

TEST(PlannerTest, PlansTheTinyExampleOverAnyNumberOfWorkers) {
  for (const size_t num_workers : {1u, 2u, 3u, 4u, 16u}) {
    const absl::StatusOr<PlannedJob> job = PlanJobWith(TinySpec({{"parallelism.virtual_stages", "1"}}),
                                                       EqualWorkers(num_workers), {.searches_order = false});
    ASSERT_TRUE(job.ok()) << job.status();
    const v1::Plan& plan = job->plan;
    ASSERT_EQ(plan.stages_size(), static_cast<int>(num_workers));
    EXPECT_EQ(plan.schedule(), num_workers == 1 ? "1f1b" : "zb_h1");
    EXPECT_EQ(plan.num_micro_batches(), 8u);
    EXPECT_EQ(job->programs.size(), num_workers);
    EXPECT_EQ(job->evaluation_programs.size(), num_workers);
    uint32_t next_layer = 0;
    for (const v1::StagePlan& stage : plan.stages()) {
      EXPECT_EQ(stage.first_layer(), next_layer);
      next_layer = stage.last_layer() + 1;
      const v1::StageMemory& memory = stage.memory_bytes();
      const uint64_t arena = std::max(job->programs[stage.worker_rank()].arena_bytes(),
                                      job->evaluation_programs[stage.worker_rank()].arena_bytes());
      EXPECT_EQ(memory.activations() + memory.pending_weight() + memory.receive() + memory.scratch(), arena);
      EXPECT_EQ(memory.total(), arena + memory.parameters() + memory.gradients() + memory.optimizer());
    }
    EXPECT_EQ(next_layer, 19u);
    EXPECT_GT(plan.lower_bound_seconds(), 0);
    EXPECT_GE(plan.step_seconds(), plan.lower_bound_seconds());
    EXPECT_GE(plan.partition_imbalance_ratio(), 1);
    if (num_workers <= 4) {
      EXPECT_LT(plan.partition_imbalance_ratio(), 1.2);
    }
    if (num_workers == 1) {
      EXPECT_NEAR(plan.bubble_ratio(), 0, 1e-9);
    }
  }
}

void ExpectSlotsOfWorkers(const v1::JobSpec& spec) {
  constexpr uint64_t kElementBytes = 4;
  const absl::StatusOr<PlannedJob> job = PlanJob(spec, EqualWorkers(3));
  ASSERT_TRUE(job.ok()) << job.status();
  for (const std::vector<v1::StageProgram>* programs : {&job->programs, &job->evaluation_programs}) {
    for (const v1::StageProgram& program : *programs) {
      const v1::StageSlots& stage = program.stages(0);
      const absl::StatusOr<StageMemoryBytes> needed =
          MemoryOfStage(job->graph,
                        {stage.first_layer(),
                         stage.last_layer(),
                         {stage.recomputed_layers().begin(), stage.recomputed_layers().end()}},
                        kElementBytes);
      ASSERT_TRUE(needed.ok()) << needed.status();
      for (const v1::Slot& slot : stage.saved()) EXPECT_EQ(slot.bytes(), needed->saved);
      for (const v1::Slot& slot : stage.shared()) EXPECT_EQ(slot.bytes(), needed->shared);
      const uint64_t pending = program.forward_only() ? needed->remade : needed->pending;
      for (const v1::Slot& slot : stage.pending()) EXPECT_EQ(slot.bytes(), pending);
      for (const v1::Slot& slot : stage.recomputed()) EXPECT_EQ(slot.bytes(), needed->recomputed);
      EXPECT_EQ(program.scratch().bytes(), needed->scratch);
    }
  }
}

TEST(PlannerTest, SlotsHaveTheBytesThatAWorkerCarves) {
  for (const char* choice : {"none", "full"}) {
    ExpectSlotsOfWorkers(
        TinySpec({{"parallelism.virtual_stages", "1"}, {"parallelism.activation_checkpointing", choice}}));
  }
}

int NumRecomputed(const PlannedJob& job) {
  int num_recomputed = 0;
  for (const v1::StagePlan& stage : job.plan.stages()) num_recomputed += stage.recomputed_layers_size();
  return num_recomputed;
}

TEST(PlannerTest, RecomputesAllBlocksOrThoseThatMemoryMakesNecessary) {
  const auto plan = [](const std::string& choice, uint64_t memory_bytes) {
    return PlanJob(TinySpec({{"parallelism.schedule", "1f1b"},
                             {"parallelism.partition", "even"},
                             {"parallelism.activation_checkpointing", choice}}),
                   EqualWorkers(2, memory_bytes));
  };
  const absl::StatusOr<PlannedJob> none = plan("none", 0);
  const absl::StatusOr<PlannedJob> unforced = plan("selective", 0);
  const absl::StatusOr<PlannedJob> full = plan("full", 0);
  ASSERT_TRUE(none.ok() && unforced.ok() && full.ok()) << none.status() << unforced.status() << full.status();
  EXPECT_EQ(NumRecomputed(*none), 0);
  EXPECT_EQ(NumRecomputed(*full), 16);
  EXPECT_EQ(unforced->programs[0].content_hash(), none->programs[0].content_hash());
  EXPECT_LT(MostNeeded(*full), MostNeeded(*none));
  EXPECT_GT(full->plan.step_seconds(), none->plan.step_seconds());
  EXPECT_GE(full->plan.step_seconds(), full->plan.lower_bound_seconds());
  // Less than the forward: nothing makes the output of a block again.
  const v1::StagePlan& stage = full->plan.stages(0);
  EXPECT_GT(stage.recompute_seconds(), 0.5 * stage.forward_seconds());
  EXPECT_LT(stage.recompute_seconds(), 0.8 * stage.forward_seconds());

  const uint64_t between = (MostNeeded(*none) + MostNeeded(*full)) / 2;
  EXPECT_THAT(std::string(plan("none", between).status().message()),
              HasSubstr("parallelism.activation_checkpointing selective"));
  const absl::StatusOr<PlannedJob> selective = plan("selective", between);
  ASSERT_TRUE(selective.ok()) << selective.status();
  EXPECT_LE(MostNeeded(*selective), between);
  EXPECT_GT(NumRecomputed(*selective), 0);
  EXPECT_LT(NumRecomputed(*selective), 8);  // none on the last stage, which holds one micro-batch at a time
  EXPECT_EQ(selective->plan.stages(1).recomputed_layers_size(), 0);
  EXPECT_LT(selective->plan.step_seconds(), full->plan.step_seconds());
  EXPECT_GT(selective->plan.step_seconds(), none->plan.step_seconds());
  v1::JobSpec unknown = TinySpec();
  unknown.mutable_parallelism()->set_activation_checkpointing("always");
  EXPECT_EQ(PlanJob(unknown, EqualWorkers(2)).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(PlannerTest, EveryScheduleRecomputes) {
  for (const Schedule* schedule : AllSchedules()) {
    if (schedule->forward_only()) continue;
    const std::string name(schedule->name());
    const absl::StatusOr<PlannedJob> none = PlanJob(TinySpec({{"parallelism.schedule", name}}), EqualWorkers(3));
    const absl::StatusOr<PlannedJob> full = PlanJob(
        TinySpec({{"parallelism.schedule", name}, {"parallelism.activation_checkpointing", "full"}}), EqualWorkers(3));
    ASSERT_TRUE(none.ok() && full.ok()) << name << ": " << none.status() << full.status();
    EXPECT_EQ(NumRecomputed(*full), 16) << name;
    EXPECT_LT(MostNeeded(*full), MostNeeded(*none)) << name;
  }
}

TEST(PlannerTest, NamesTheScheduleThatTheSpecificationAsksFor) {
  const absl::StatusOr<PlannedJob> job = PlanJob(TinySpec({{"parallelism.schedule", "gpipe"}}), EqualWorkers(2));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->plan.schedule(), "gpipe");
  EXPECT_EQ(job->programs[0].schedule(), "gpipe");
  EXPECT_EQ(job->evaluation_programs[0].schedule(), "forward_only");
}

TEST(PlannerTest, EverySchedulePlacesItsStagesAndEvaluatesThere) {
  for (const Schedule* schedule : HandMadeSchedules()) {
    if (schedule->forward_only()) continue;
    const std::string name(schedule->name());
    const absl::StatusOr<PlannedJob> job = PlanJob(TinySpec({{"parallelism.schedule", name}}), EqualWorkers(3));
    ASSERT_TRUE(job.ok()) << job.status();
    const uint32_t num_stages = 3 * schedule->default_chunks();
    ASSERT_EQ(job->plan.stages_size(), static_cast<int>(num_stages)) << name;
    EXPECT_EQ(job->programs.size(), 3u);
    EXPECT_EQ(job->evaluation_programs.size(), 3u);
    std::vector<uint64_t> planned(3);
    for (uint32_t stage = 0; stage < num_stages; ++stage) {
      const v1::StagePlan& stage_plan = job->plan.stages(static_cast<int>(stage));
      EXPECT_EQ(stage_plan.worker_rank(), WorkerOfStage(schedule->placement(), 3, stage)) << name;
      const v1::StageMemory& memory = stage_plan.memory_bytes();
      planned[stage_plan.worker_rank()] +=
          memory.activations() + memory.pending_weight() + memory.receive() + memory.scratch();
    }
    for (size_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(job->programs[rank].stages_size(), static_cast<int>(schedule->default_chunks()));
      EXPECT_EQ(planned[rank],
                std::max(job->programs[rank].arena_bytes(), job->evaluation_programs[rank].arena_bytes()));
    }
  }
}

TEST(PlannerTest, VirtualStagesAreThoseOfTheSpecificationOrOfTheSchedule) {
  EXPECT_EQ(
      PlanJob(TinySpec({{"parallelism.schedule", "interleaved"}, {"parallelism.virtual_stages", "4"}}), EqualWorkers(2))
          ->plan.stages_size(),
      8);
  const absl::Status status =
      PlanJob(TinySpec({{"parallelism.schedule", "zb_v"}, {"parallelism.virtual_stages", "3"}}), EqualWorkers(2))
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("virtual_stages is 3"), HasSubstr("made for 2")));
}

TEST(PlannerTest, AWorkerMustHoldAllItsStages) {
  const v1::JobSpec spec = TinySpec({{"parallelism.schedule", "interleaved"}});
  const auto needed_by_workers = [](const PlannedJob& job) {
    std::vector<uint64_t> needed(2);
    for (const v1::StagePlan& stage : job.plan.stages()) needed[stage.worker_rank()] += stage.memory_bytes().total();
    return needed;
  };
  const absl::StatusOr<PlannedJob> best = PlanJob(spec, EqualWorkers(2));
  ASSERT_TRUE(best.ok()) << best.status();
  const std::vector<uint64_t> needed = needed_by_workers(*best);
  const uint64_t most = std::max(needed[0], needed[1]);
  uint64_t largest_stage = 0;
  for (const v1::StagePlan& stage : best->plan.stages()) {
    largest_stage = std::max(largest_stage, stage.memory_bytes().total());
  }
  ASSERT_GT(most, largest_stage);
  // Each stage would fit on its own.
  const absl::Status status = PlanJob(spec, EqualWorkers(2, largest_stage)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("stage "), HasSubstr(" and stage ")));
  // What one worker cannot hold goes to the other.
  const size_t larger = needed[0] == most ? 0 : 1;
  std::vector<WorkerProfile> workers = EqualWorkers(2);
  workers[larger].memory_bytes = most - 1;
  const absl::StatusOr<PlannedJob> other = PlanJob(spec, workers);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_LT(needed_by_workers(*other)[larger], most);
  EXPECT_GE(other->plan.step_seconds(), best->plan.step_seconds());
}

TEST(PlannerTest, PlansNoEvaluationWithoutValidation) {
  v1::JobSpec spec = TinySpec();
  spec.mutable_data()->set_validation_fraction(0);
  const absl::StatusOr<PlannedJob> job = PlanJob(spec, EqualWorkers(2));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_TRUE(job->evaluation_programs.empty());
}

TEST(PlannerTest, ThousandsOfMicroBatchesArePlanned) {
  v1::JobSpec spec = TinySpec({{"parallelism.schedule", "gpipe"}});
  spec.mutable_training()->set_micro_batch_size(1);
  spec.mutable_training()->set_global_batch_size(5000);
  const absl::StatusOr<PlannedJob> job = PlanJob(spec, EqualWorkers(2));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->programs[0].stages(0).saved_size(), 5000);
  spec.mutable_training()->set_global_batch_size(65537);
  EXPECT_EQ(PlanJob(spec, EqualWorkers(2)).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(PlannerTest, ADegreeTakesTheFirstWorkers) {
  v1::JobSpec spec = TinySpec({{"parallelism.virtual_stages", "1"}});
  spec.mutable_parallelism()->set_pipeline_parallel_degree(3);
  const absl::StatusOr<PlannedJob> job = PlanJob(spec, EqualWorkers(5));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->plan.stages_size(), 3);
}

TEST(PlannerTest, EqualInputsGiveEqualPrograms) {
  const absl::StatusOr<PlannedJob> a = PlanJob(TinySpec(), EqualWorkers(4));
  const absl::StatusOr<PlannedJob> b = PlanJob(TinySpec(), EqualWorkers(4));
  ASSERT_TRUE(a.ok() && b.ok());
  for (size_t worker = 0; worker < 4; ++worker) {
    EXPECT_EQ(a->programs[worker].content_hash(), b->programs[worker].content_hash());
    EXPECT_EQ(ProgramText(a->programs[worker]), ProgramText(b->programs[worker]));
  }
}

TEST(PlannerTest, RefusesWhatCannotBePlanned) {
  const auto refusal = [](const v1::JobSpec& spec, size_t num_workers) {
    const absl::StatusOr<PlannedJob> job = PlanJob(spec, EqualWorkers(num_workers));
    EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument) << job.status();
    return std::string(job.status().message());
  };
  EXPECT_THAT(refusal(TinySpec(), 17), AllOf(HasSubstr("17 stages for 16 transformer blocks"), HasSubstr("to 16 or")));
  EXPECT_THAT(refusal(TinySpec(), 0), HasSubstr("no worker"));
  v1::JobSpec spec = TinySpec();
  spec.mutable_parallelism()->set_pipeline_parallel_degree(4);
  EXPECT_THAT(refusal(spec, 2), AllOf(HasSubstr("is 4"), HasSubstr("start 2 more")));
  spec = TinySpec();
  spec.mutable_parallelism()->mutable_partition()->set_kind(v1::PartitionSpec::KIND_LAYERS);
  spec.mutable_parallelism()->mutable_partition()->add_num_blocks(7);
  spec.mutable_parallelism()->mutable_partition()->add_num_blocks(8);
  EXPECT_THAT(refusal(spec, 2), AllOf(HasSubstr("sums to 15"), HasSubstr("is 16")));
  spec = TinySpec();
  spec.mutable_training()->set_micro_batch_size(5);
  EXPECT_THAT(refusal(spec, 2), HasSubstr("not a multiple"));
  spec = TinySpec();
  spec.mutable_parallelism()->set_schedule("forward_only");
  EXPECT_THAT(refusal(spec, 2), HasSubstr("does not train"));
}

TEST(PlannerTest, UnknownScheduleIsNotFound) {
  v1::JobSpec spec = TinySpec();
  spec.mutable_parallelism()->set_schedule("1f2b");
  EXPECT_EQ(PlanJob(spec, EqualWorkers(2)).status().code(), absl::StatusCode::kNotFound);
}

TEST(PlannerTest, CopiesOfTheStateArePlannedWhereCheckpointsAreWrittenBehindTraining) {
  v1::JobSpec spec = TinySpec({{"parallelism.virtual_stages", "1"}});
  spec.mutable_model()->mutable_config()->set_tie_word_embeddings(true);
  v1::CheckpointSpec& checkpoint = *spec.mutable_checkpoint();
  checkpoint.set_async(true);
  const absl::StatusOr<PlannedJob> without = PlanJob(spec, EqualWorkers(2));
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(without->plan.stages(0).memory_bytes().snapshot(), 0u);
  checkpoint.set_interval_steps(5);
  const absl::StatusOr<PlannedJob> with = PlanJob(spec, EqualWorkers(2));
  ASSERT_TRUE(with.ok()) << with.status();
  for (int stage = 0; stage < 2; ++stage) {
    const v1::StageMemory& memory = with->plan.stages(stage).memory_bytes();
    // The copy of a tied tensor on the last stage is not its to write.
    const uint64_t tied =
        stage == 0 ? 0 : 12 * spec.model().config().vocab_size() * spec.model().config().hidden_size();
    EXPECT_EQ(memory.snapshot(), memory.parameters() + memory.optimizer() - tied);
    EXPECT_EQ(memory.total(), without->plan.stages(stage).memory_bytes().total() + memory.snapshot());
  }
  checkpoint.set_interval_steps(0);
  checkpoint.set_interval_seconds(60);
  EXPECT_GT(PlanJob(spec, EqualWorkers(2))->plan.stages(0).memory_bytes().snapshot(), 0u);
  checkpoint.set_async(false);
  EXPECT_EQ(PlanJob(spec, EqualWorkers(2))->plan.stages(0).memory_bytes().snapshot(), 0u);
}

TEST(PlannerTest, CutsAnotherWayWhenTheBestCutDoesNotFit) {
  const absl::StatusOr<PlannedJob> best = PlanJob(TinySpec({{"parallelism.schedule", "1f1b"}}), EqualWorkers(2));
  ASSERT_TRUE(best.ok());
  uint64_t needed = 0;
  for (const v1::StagePlan& stage : best->plan.stages()) needed = std::max(needed, stage.memory_bytes().total());
  const absl::StatusOr<PlannedJob> other =
      PlanJob(TinySpec({{"parallelism.schedule", "1f1b"}}), EqualWorkers(2, needed - 1));
  ASSERT_TRUE(other.ok()) << other.status();
  for (const v1::StagePlan& stage : other->plan.stages()) EXPECT_LT(stage.memory_bytes().total(), needed);
  EXPECT_GT(other->plan.partition_imbalance_ratio(), best->plan.partition_imbalance_ratio());
}

TEST(PlannerTest, SaysWhatIsLackingAndWhatWouldHelp) {
  constexpr uint64_t kMemory = 30'000'000;
  const absl::Status status = PlanJob(TinySpec(), EqualWorkers(2, kMemory)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("stage "), HasSubstr(" has 30000000: "), HasSubstr("lacking; it fits with ")));
}

}  // namespace
}  // namespace stagecoach
