// Plans of jobs with frozen layers: where they are cut, what their stages take and hold.

#include "common/frozen_layers.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/layer_memory.h"
#include "coordinator/plan/planner.h"
#include "coordinator/plan/testing/tiny_job.h"
#include "coordinator/program/tied_tensor.h"
#include "coordinator/schedule/schedule.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using testing::TinySpec;

const std::vector<std::string> kFrozenSets = {"[transformer.wte, transformer.h.0-5]",
                                              "[transformer.h.4-9]",
                                              "[transformer.h.12-15, transformer.ln_f, lm_head]",
                                              "[transformer.wte]",
                                              "[\"transformer.*\"]",
                                              "[transformer.h.*, transformer.ln_f, lm_head]"};

// The tiny example, of 16 blocks, without its tie.
v1::JobSpec FrozenSpec(const std::string& frozen, const std::string& schedule, const std::string& recomputation) {
  return TinySpec({{"model.frozen_layers", frozen},
                   {"model.config.tie_word_embeddings", "false"},
                   {"parallelism.schedule", schedule},
                   {"parallelism.activation_checkpointing", recomputation}});
}

absl::StatusOr<PlannedJob> Plan(const std::string& frozen, const std::string& schedule,
                                const std::string& recomputation, size_t num_workers) {
  return PlanJob(FrozenSpec(frozen, schedule, recomputation), std::vector<WorkerProfile>(num_workers));
}

TEST(FrozenPlanTest, SlotsHaveTheBytesThatAWorkerCarves) {
  constexpr uint64_t kElementBytes = 4;
  for (const std::string& frozen : kFrozenSets) {
    for (const char* recomputation : {"none", "full"}) {
      SCOPED_TRACE(frozen + " " + recomputation);
      const absl::StatusOr<PlannedJob> job = Plan(frozen, "1f1b", recomputation, 3);
      ASSERT_TRUE(job.ok()) << job.status();
      for (const std::vector<v1::StageProgram>* programs : {&job->programs, &job->evaluation_programs}) {
        for (const v1::StageProgram& program : *programs) {
          const v1::StageSlots& stage = program.stages(0);
          const StageExtent extent{stage.first_layer(),
                                   stage.last_layer(),
                                   {stage.recomputed_layers().begin(), stage.recomputed_layers().end()}};
          const absl::StatusOr<StageMemoryBytes> needed = MemoryOfStage(job->graph, extent, kElementBytes);
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
  }
}

uint64_t TrainedElements(const v1::ModelGraph& graph) {
  uint64_t elements = 0;
  for (const v1::LayerSpec& layer : graph.layers()) {
    for (const v1::ParameterSpec& parameter : layer.parameters()) {
      if (!layer.frozen()) elements += NumElements(parameter);
    }
  }
  return elements;
}

TEST(FrozenPlanTest, EveryScheduleIsPlanned) {
  for (const Schedule* schedule : AllSchedules()) {
    if (schedule->forward_only()) continue;
    for (const std::string& frozen : kFrozenSets) {
      for (const char* recomputation : {"none", "full"}) {
        SCOPED_TRACE(absl::StrCat(schedule->name(), " ", frozen, " ", recomputation));
        const absl::StatusOr<PlannedJob> job = Plan(frozen, std::string(schedule->name()), recomputation, 3);
        ASSERT_TRUE(job.ok()) << job.status();
        EXPECT_GE(job->plan.step_seconds(), job->plan.lower_bound_seconds());
        uint64_t gradients = 0;
        uint64_t optimizer = 0;
        for (const v1::StagePlan& stage : job->plan.stages()) {
          const StageBackward backward = BackwardOfStage(job->graph, stage.first_layer(), stage.last_layer());
          EXPECT_EQ(stage.backward_weight_seconds() > 0, backward.weight);
          gradients += stage.memory_bytes().gradients();
          optimizer += stage.memory_bytes().optimizer();
        }
        EXPECT_EQ(gradients, 4 * TrainedElements(job->graph));
        EXPECT_EQ(optimizer, 8 * TrainedElements(job->graph));
      }
    }
  }
}

// The partitioner knows that a frozen prefix has no backward, and gives it to few workers.
TEST(FrozenPlanTest, LayersAreCutByWhatIsLeftOfThem) {
  const absl::StatusOr<PlannedJob> whole = Plan("[]", "1f1b", "none", 4);
  const absl::StatusOr<PlannedJob> job = Plan("[transformer.wte, transformer.h.0-9]", "1f1b", "none", 4);
  ASSERT_TRUE(whole.ok() && job.ok()) << job.status();
  EXPECT_GT(job->plan.stages(0).last_layer(), whole->plan.stages(0).last_layer() + 2);
  EXPECT_LT(job->plan.partition_imbalance_ratio(), 1.5);
  const v1::StagePlan& frozen = job->plan.stages(0);
  EXPECT_EQ(frozen.backward_input_seconds(), 0);
  EXPECT_EQ(frozen.backward_weight_seconds(), 0);
  EXPECT_EQ(frozen.memory_bytes().gradients(), 0u);
  EXPECT_EQ(frozen.memory_bytes().optimizer(), 0u);
  EXPECT_EQ(frozen.memory_bytes().pending_weight(), 0u);
  EXPECT_LT(frozen.memory_bytes().activations() + frozen.memory_bytes().receive(),
            whole->plan.stages(0).memory_bytes().activations() / 4);
  EXPECT_LT(job->plan.step_seconds(), 0.7 * whole->plan.step_seconds());
}

// A stage that has I and no W is done with a micro-batch when its I has run, whatever the schedule's table says of W.
TEST(FrozenPlanTest, NobodyReckonsWithWhatIsHeldForAWeightGradientThatIsLeftOut) {
  const v1::JobSpec spec = FrozenSpec("[transformer.h.8-15, transformer.ln_f, lm_head]", "zb_h1", "selective");
  std::vector<WorkerProfile> workers(4);
  const absl::StatusOr<PlannedJob> roomy = PlanJob(spec, workers);
  ASSERT_TRUE(roomy.ok()) << roomy.status();
  ASSERT_EQ(roomy->plan.stages(3).backward_weight_seconds(), 0);
  workers[3].memory_bytes = roomy->plan.stages(3).memory_bytes().total() * 21 / 20;
  const absl::StatusOr<PlannedJob> tight = PlanJob(spec, workers);
  ASSERT_TRUE(tight.ok()) << tight.status();
  EXPECT_TRUE(tight->plan.stages(3).recomputed_layers().empty());
  EXPECT_EQ(tight->plan.stages(3).first_layer(), roomy->plan.stages(3).first_layer());
  EXPECT_EQ(tight->plan.step_seconds(), roomy->plan.step_seconds());
}

}  // namespace
}  // namespace stagecoach
