// Frozen layers from the table to the proof: what is left out, what is held, times, texts, and what is refused.

#include "common/frozen_layers.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/program/lowering.h"
#include "coordinator/program/memory_curve.h"
#include "coordinator/program/program_parser.h"
#include "coordinator/program/simulator.h"
#include "coordinator/program/testing/small_pipeline.h"
#include "coordinator/program/testing/symbolic_run.h"
#include "coordinator/schedule/pruned_table.h"
#include "coordinator/schedule/schedule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::MakeSmallPipeline;
using testing::RunInManyOrders;
using testing::SmallPipeline;
using testing::SymbolicOutcome;

// Of a pipeline with a block on each of `num_stages`: the layers are embedding, blocks, norm, head.
std::vector<std::vector<uint32_t>> FrozenSets(uint32_t num_stages) {
  const uint32_t norm = num_stages + 1;
  const uint32_t head = num_stages + 2;
  std::vector<uint32_t> prefix;
  for (uint32_t layer = 0; layer <= (num_stages + 1) / 2; ++layer) prefix.push_back(layer);
  std::vector<uint32_t> all_but_head;
  for (uint32_t layer = 0; layer < head; ++layer) all_but_head.push_back(layer);
  std::vector<uint32_t> all_but_embedding;
  for (uint32_t layer = 1; layer <= head; ++layer) all_but_embedding.push_back(layer);
  return {{0}, prefix, {1 + num_stages / 2}, {norm, head}, all_but_head, all_but_embedding};
}

std::map<v1::ActionKind, uint32_t> Count(const SmallPipeline& pipeline, uint32_t stage) {
  std::map<v1::ActionKind, uint32_t> counts;
  for (const v1::StageProgram& program : pipeline.programs) {
    for (const v1::Instruction& instruction : program.instructions()) {
      if (instruction.action().stage() == stage) ++counts[instruction.action().kind()];
    }
  }
  return counts;
}

StageBackward BackwardOf(const SmallPipeline& pipeline, uint32_t stage) {
  const v1::StagePlan& plan = pipeline.plan.stages(static_cast<int>(stage));
  return BackwardOfStage(pipeline.graph, plan.first_layer(), plan.last_layer());
}

// As many as the frozen set leaves, and no others.
void ExpectExactActions(const SmallPipeline& pipeline, uint32_t num_micro_batches) {
  const auto num_stages = static_cast<uint32_t>(pipeline.plan.stages_size());
  for (uint32_t stage = 0; stage < num_stages; ++stage) {
    std::map<v1::ActionKind, uint32_t> counts = Count(pipeline, stage);
    const StageBackward backward = BackwardOf(pipeline, stage);
    EXPECT_EQ(counts[v1::ACTION_KIND_FORWARD], num_micro_batches);
    EXPECT_EQ(counts[v1::ACTION_KIND_BACKWARD_INPUT], backward.input ? num_micro_batches : 0);
    EXPECT_EQ(counts[v1::ACTION_KIND_BACKWARD_WEIGHT], backward.weight ? num_micro_batches : 0);
    const bool is_hop = stage > 0 && pipeline.plan.stages(static_cast<int>(stage)).worker_rank() !=
                                         pipeline.plan.stages(static_cast<int>(stage) - 1).worker_rank();
    EXPECT_EQ(counts[v1::ACTION_KIND_SEND_BACKWARD], is_hop && backward.sends_gradient ? num_micro_batches : 0);
    EXPECT_EQ(counts[v1::ACTION_KIND_GRADIENT_NORM], 1u);
  }
}

void ExpectRuns(const SmallPipeline& pipeline) {
  const std::vector<SymbolicOutcome> outcomes = RunInManyOrders(pipeline.programs);
  for (const SymbolicOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.problem, "");
    EXPECT_EQ(outcome, outcomes[0]);
  }
}

class FrozenPipelineTest : public ::testing::TestWithParam<const Schedule*> {};

TEST_P(FrozenPipelineTest, EverySetIsProvenAndRunsNoMoreThanItNeeds) {
  const uint32_t v = GetParam()->default_chunks();
  for (const uint32_t p : {1u, 2u, 4u}) {
    for (const uint32_t m : {1u, 3u, 9u}) {
      const auto table = GetParam()->Build({.num_workers = p, .num_chunks = v, .num_micro_batches = m});
      ASSERT_TRUE(table.ok()) << table.status();
      for (const std::vector<uint32_t>& frozen : FrozenSets(p * v)) {
        for (const bool recomputes : {false, true}) {
          SCOPED_TRACE(absl::StrCat(table->schedule(), " p=", p, " m=", m, " frozen ", ::testing::PrintToString(frozen),
                                    recomputes ? " recomputing" : ""));
          testing::SmallPipelineOptions options{.tied = false, .frozen_layers = frozen};
          if (recomputes) {
            v1::ModelGraph graph = testing::SmallGraph(p * v, false);
            testing::Freeze(frozen, graph);
            for (uint32_t stage = 0; stage < p * v; ++stage) {
              options.recomputes.push_back(RoleOf(graph, stage + 1) != LayerRole::kForwardOnly);
            }
          }
          const SmallPipeline pipeline = MakeSmallPipeline(*table, options);
          for (const SendSemantics sends : {SendSemantics::kRendezvous, SendSemantics::kBuffered}) {
            ASSERT_TRUE(pipeline.Verified(sends).ok()) << pipeline.Verified(sends);
          }
          if (GetParam()->forward_only()) continue;
          ExpectExactActions(pipeline, m);
          ExpectRuns(pipeline);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, FrozenPipelineTest, ::testing::ValuesIn(AllSchedules()),
                         [](const auto& schedule) { return std::string(schedule.param->name()); });

// Layers 0 to 2 are frozen: embedding and the blocks of stages 0 and 1.
SmallPipeline FrozenPrefix(const std::string& schedule, uint32_t num_micro_batches) {
  return MakeSmallPipeline(
      schedule, {.num_stages = 4, .num_micro_batches = num_micro_batches, .tied = false, .frozen_layers = {0, 1, 2}});
}

TEST(FrozenLayersTest, AFrozenStageHoldsNothingBetweenItsForwards) {
  const SmallPipeline pipeline = FrozenPrefix("1f1b", 12);
  for (const size_t rank : {0U, 1U}) {
    const v1::StageProgram& program = pipeline.programs[rank];
    EXPECT_EQ(program.stages(0).frozen_below(), rank == 1);
    EXPECT_TRUE(program.stages(0).pending().empty());
    for (const auto* slots : {&program.stages(0).saved(), &program.stages(0).shared()}) {
      ASSERT_EQ(slots->size(), 1);
      EXPECT_EQ(slots->Get(0).bytes(), 0u);
    }
    const v1::StageMemory& memory = pipeline.plan.stages(static_cast<int>(rank)).memory_bytes();
    EXPECT_EQ(memory.gradients(), 0u);
    EXPECT_EQ(memory.optimizer(), 0u);
    EXPECT_GT(memory.parameters(), 0u);
  }
  EXPECT_TRUE(pipeline.programs[2].stages(0).frozen_below());
  EXPECT_FALSE(pipeline.programs[3].stages(0).frozen_below());
  EXPECT_EQ(pipeline.programs[2].channels_size(), 3);  // a gradient comes, and none goes on
}

// A stage without a backward would fill as many buffers as there are micro-batches.
TEST(FrozenLayersTest, AFrozenStageRunsAFewMicroBatchesAhead) {
  for (const char* schedule : {"1f1b", "zb_h1", "gpipe"}) {
    const SmallPipeline pipeline = FrozenPrefix(schedule, 32);
    ASSERT_TRUE(pipeline.Verified().ok()) << pipeline.Verified();
    for (const v1::StageProgram& program : pipeline.programs) {
      for (const v1::ChannelSpec& channel : program.channels()) {
        if (channel.from_stage() <= 1) {
          EXPECT_LE(channel.num_slots(), 4u) << schedule;
        }
      }
    }
  }
}

TEST(FrozenLayersTest, AFrozenLastStageFreesItsLabelsInF) {
  const SmallPipeline pipeline =
      MakeSmallPipeline("gpipe", {.num_stages = 3, .num_micro_batches = 6, .tied = false, .frozen_layers = {3, 4, 5}});
  ASSERT_TRUE(pipeline.Verified().ok()) << pipeline.Verified();
  const v1::StageSlots& last = pipeline.programs[2].stages(0);
  EXPECT_EQ(last.load_size(), 1);
  EXPECT_TRUE(last.pending().empty());
  EXPECT_EQ(pipeline.plan.stages(2).memory_bytes().gradients(), 0u);
}

TEST(FrozenLayersTest, AFrozenTieIsNotExchanged) {
  const testing::SmallPipelineOptions options{.num_stages = 2, .num_micro_batches = 2, .frozen_layers = {0, 4}};
  const SmallPipeline pipeline = MakeSmallPipeline("1f1b", options);
  ASSERT_TRUE(pipeline.Verified().ok()) << pipeline.Verified();
  for (const v1::StageProgram& program : pipeline.programs) {
    EXPECT_TRUE(std::none_of(program.channels().begin(), program.channels().end(),
                             [](const auto& channel) { return channel.kind() == v1::CHANNEL_KIND_TIE; }));
    EXPECT_TRUE(std::none_of(program.instructions().begin(), program.instructions().end(), [](const auto& instruction) {
      return instruction.action().kind() == v1::ACTION_KIND_TIE_REDUCE;
    }));
  }
  v1::ModelGraph half = pipeline.graph;
  half.mutable_layers(4)->set_frozen(false);
  EXPECT_THAT(std::string(Lower(pipeline.table, half, pipeline.plan, {}).status().message()),
              HasSubstr("one of them is frozen: freeze both or neither"));
}

TEST(FrozenLayersTest, TextsAreReadBack) {
  const SmallPipeline pipeline = FrozenPrefix("zb_h1", 3);
  std::string text;
  for (const v1::StageProgram& program : pipeline.programs) text += ProgramText(program);
  EXPECT_THAT(text, HasSubstr("stage 1 layers 2..2 frozen_below "));
  const auto read = ParseProgramText(text);
  ASSERT_TRUE(read.ok()) << read.status();
  for (size_t i = 0; i < read->size(); ++i) {
    EXPECT_EQ((*read)[i].content_hash(), pipeline.programs[i].content_hash());
  }
}

std::string Refusal(const SmallPipeline& pipeline) {
  const absl::Status status = pipeline.Verified();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(FrozenLayersTest, ProgramsOfOtherFrozenLayersAreRefused) {
  const SmallPipeline frozen = FrozenPrefix("zb_h1", 3);
  SmallPipeline whole = MakeSmallPipeline("zb_h1", {.num_stages = 4, .num_micro_batches = 3, .tied = false});
  whole.graph = frozen.graph;
  EXPECT_THAT(Refusal(whole), HasSubstr("says that something below stage 1 is trained"));
  SmallPipeline less = FrozenPrefix("zb_h1", 3);
  less.graph.mutable_layers(2)->set_frozen(false);
  EXPECT_THAT(Refusal(less), HasSubstr("says that nothing below stage 2 is trained"));
  for (v1::StageProgram& program : whole.programs) {
    for (v1::StageSlots& stage : *program.mutable_stages()) {
      stage.set_frozen_below(stage.stage() == 1 || stage.stage() == 2);
    }
  }
  EXPECT_THAT(Refusal(whole), HasSubstr("channels"));
}

// The first instruction of the kind.
int Find(const v1::StageProgram& program, v1::ActionKind kind) {
  int index = 0;
  while (program.instructions(index).action().kind() != kind) ++index;
  return index;
}

TEST(FrozenLayersTest, AnActionThatIsMissingOrTooManyIsRefused) {
  // Stage 0 is frozen, stage 1 the lowest that trains, stage 3 passes gradients on.
  const SmallPipeline pipeline = MakeSmallPipeline(
      "zb_h1", {.num_stages = 4, .num_micro_batches = 3, .tied = false, .frozen_layers = {0, 1, 4, 5, 6}});
  ASSERT_TRUE(pipeline.Verified().ok()) << pipeline.Verified();
  const auto with = [&](size_t rank, v1::ActionKind where, v1::ActionKind kind) {
    SmallPipeline mutant = pipeline;
    mutant.programs[rank].mutable_instructions(Find(mutant.programs[rank], where))->mutable_action()->set_kind(kind);
    return Refusal(mutant);
  };
  const auto without = [&](size_t rank, v1::ActionKind kind) {
    SmallPipeline mutant = pipeline;
    v1::StageProgram& program = mutant.programs[rank];
    program.mutable_instructions()->DeleteSubrange(Find(program, kind), 1);
    return Refusal(mutant);
  };
  EXPECT_THAT(without(3, v1::ACTION_KIND_BACKWARD_INPUT), HasSubstr("worker 3"));
  EXPECT_THAT(without(1, v1::ACTION_KIND_BACKWARD_WEIGHT), HasSubstr("still holds micro-batch 0"));
  EXPECT_THAT(with(0, v1::ACTION_KIND_GRADIENT_NORM, v1::ACTION_KIND_BACKWARD_WEIGHT), HasSubstr("(0W0)"));
  EXPECT_THAT(with(0, v1::ACTION_KIND_GRADIENT_NORM, v1::ACTION_KIND_BACKWARD_INPUT), HasSubstr("(0I0)"));
  EXPECT_THAT(with(3, v1::ACTION_KIND_GRADIENT_NORM, v1::ACTION_KIND_BACKWARD_WEIGHT), HasSubstr("(3W0)"));

  // With the slots that it would use.
  SmallPipeline mutant = pipeline;
  v1::Instruction& norm =
      *mutant.programs[3].mutable_instructions(Find(mutant.programs[3], v1::ACTION_KIND_GRADIENT_NORM));
  norm.mutable_action()->set_kind(v1::ACTION_KIND_BACKWARD_WEIGHT);
  norm.set_load_slot(0);
  norm.set_shared_slot(0);
  norm.set_pending_slot(0);
  EXPECT_THAT(Refusal(mutant), AllOf(HasSubstr("(3W0)"), HasSubstr("every layer of its stage is frozen")));
}

TEST(FrozenLayersTest, TablesThatAreNotPrunedAreNotLowered) {
  const SmallPipeline frozen = FrozenPrefix("1f1b", 3);
  const SmallPipeline whole = MakeSmallPipeline("1f1b", {.num_stages = 4, .num_micro_batches = 3, .tied = false});
  EXPECT_THAT(std::string(Lower(whole.table, frozen.graph, frozen.plan, {}).status().message()),
              HasSubstr("0B0: every layer of its stage is frozen"));
  v1::ComputeTable table = frozen.table;
  v1::Action& action = *table.mutable_workers(0)->add_actions();
  action.set_kind(v1::ACTION_KIND_BACKWARD_INPUT);
  EXPECT_THAT(std::string(Lower(table, frozen.graph, frozen.plan, {}).status().message()),
              HasSubstr("0I0: every layer of its stage and below is frozen"));
}

// One micro-batch on three stages, the first of which is frozen, the last of which passes gradients on.
TEST(FrozenLayersTest, TheSimulatorTimesWhatIsLeft) {
  ScheduleProblem problem{.num_workers = 3, .num_micro_batches = 2};
  problem.cost_of_stage = {{2, 0, 0}, {1, 1, 1}, {1, 1, 0}};
  const auto table = (*FindSchedule("gpipe"))->Build(problem);
  ASSERT_TRUE(table.ok()) << table.status();
  const std::vector<StageBackward> backward = {{.input = false, .weight = false, .sends_gradient = false},
                                               {.input = true, .weight = true, .sends_gradient = false},
                                               {.input = true, .weight = false, .sends_gradient = true}};
  const auto timeline = Simulate(WithoutFrozen(*table, backward), problem);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  // 0F1 ends at 4, 2F1 at 6, 2I0 at 7 and 2I1 at 8, 1B0 at 9 and 1B1 at 11.
  EXPECT_EQ(timeline->makespan, 11);
  EXPECT_EQ(timeline->workers[0].size(), 2u);
  EXPECT_EQ(timeline->workers[2].back().end, 8);
  // 0F0 and 0F1, then up and down with the second: 4 + 1 + 1 + 1 + 2.
  EXPECT_EQ(timeline->lower_bound, 9);
  EXPECT_EQ(timeline->peak_activations, (std::vector<double>{1, 2, 2}));
  EXPECT_EQ(timeline->peak_pending_weight, (std::vector<double>{0, 1, 0}));
  for (const std::vector<MemoryPoint>& curve : MemoryCurves(*timeline)) {
    EXPECT_EQ(curve.back().activations, 0);
    EXPECT_EQ(curve.back().pending_weight, 0);
  }
}

// Whatever is frozen, no order takes less than the bound.
TEST(FrozenLayersTest, NoScheduleIsShorterThanTheBound) {
  for (const std::vector<uint32_t>& frozen : FrozenSets(4)) {
    for (const Schedule* schedule : HandMadeSchedules()) {
      if (schedule->forward_only() || schedule->default_chunks() != 1) continue;
      const SmallPipeline pipeline =
          MakeSmallPipeline(std::string(schedule->name()),
                            {.num_stages = 4, .num_micro_batches = 6, .tied = false, .frozen_layers = frozen});
      ScheduleProblem problem{.num_workers = 4, .num_micro_batches = 6, .communication_seconds = 0.25};
      const auto timeline = Simulate(pipeline.table, problem);
      ASSERT_TRUE(timeline.ok()) << timeline.status();
      double busiest = 0;
      for (const std::vector<TimedAction>& row : timeline->workers) {
        double busy = 0;
        for (const TimedAction& timed : row) busy += timed.end - timed.start;
        busiest = std::max(busiest, busy);
      }
      EXPECT_GE(timeline->lower_bound, busiest);
      EXPECT_LE(timeline->lower_bound, timeline->makespan);
    }
  }
}

}  // namespace
}  // namespace stagecoach
