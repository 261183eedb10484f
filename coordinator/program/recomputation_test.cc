// R from the table to the proof: times, slots, texts, and what is refused.

#include <string>
#include <vector>

#include "common/memory_layout.h"
#include "coordinator/program/lowered_csv.h"
#include "coordinator/program/lowering.h"
#include "coordinator/program/memory_curve.h"
#include "coordinator/program/program_parser.h"
#include "coordinator/program/schedule_proof.h"
#include "coordinator/program/simulator.h"
#include "coordinator/program/testing/small_pipeline.h"
#include "coordinator/schedule/compute_csv.h"
#include "coordinator/schedule/recomputing_table.h"
#include "coordinator/schedule/schedule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::MakeSmallPipeline;
using testing::SmallPipeline;

// Every `distance`-th stage.
std::vector<bool> Every(uint32_t distance, uint32_t num_stages) {
  std::vector<bool> recomputes(num_stages);
  for (uint32_t stage = 0; stage < num_stages; stage += distance) recomputes[stage] = true;
  return recomputes;
}

TEST(RecomputationTest, EveryScheduleIsProvenWithIt) {
  for (const Schedule* schedule : HandMadeSchedules()) {
    const uint32_t v = schedule->default_chunks();
    for (const uint32_t p : {1u, 2u, 3u, 4u}) {
      for (const uint32_t m : {1u, 2u, 5u, 9u}) {
        for (const uint32_t distance : {1u, 2u}) {
          const SmallPipeline pipeline = MakeSmallPipeline(
              std::string(schedule->name()),
              {.num_stages = p * v, .num_chunks = v, .num_micro_batches = m, .recomputes = Every(distance, p * v)});
          for (const SendSemantics sends : {SendSemantics::kRendezvous, SendSemantics::kBuffered}) {
            ASSERT_TRUE(pipeline.Verified(sends).ok())
                << schedule->name() << " p=" << p << " m=" << m << ": " << pipeline.Verified(sends);
          }
        }
      }
    }
  }
}

TEST(RecomputationTest, ABlockHoldsItsInputAloneUntilItIsRecomputed) {
  const SmallPipeline pipeline =
      MakeSmallPipeline("gpipe", {.num_stages = 2, .num_micro_batches = 6, .recomputes = {true, false}});
  const SmallPipeline kept = MakeSmallPipeline("gpipe", {.num_stages = 2, .num_micro_batches = 6});
  const v1::StageSlots& stage = pipeline.programs[0].stages(0);
  const v1::StageSlots& kept_stage = kept.programs[0].stages(0);
  const v1::LayerCost& block = pipeline.graph.layers(1).cost();
  ASSERT_EQ(stage.saved_size(), 6);
  ASSERT_EQ(stage.shared_size(), 6);
  ASSERT_EQ(stage.pending_size(), 1);
  ASSERT_EQ(stage.recomputed_size(), 1);
  EXPECT_THAT(stage.recomputed_layers(), ::testing::ElementsAre(1));
  EXPECT_EQ(stage.saved(0).bytes(), kept_stage.saved(0).bytes() - AlignUp(block.saved_bytes()));
  EXPECT_EQ(stage.shared(0).bytes(), kept_stage.shared(0).bytes() - AlignUp(block.shared_bytes()));
  EXPECT_EQ(stage.pending(0).bytes(), kept_stage.pending(0).bytes() + AlignUp(block.shared_bytes()));
  EXPECT_EQ(stage.recomputed(0).bytes(), AlignUp(block.saved_bytes()));
  // Five of the six micro-batches hold that no more; slots of other kinds then find fewer bytes to share.
  EXPECT_LE(pipeline.programs[0].arena_bytes() + 3 * (AlignUp(block.saved_bytes()) + AlignUp(block.shared_bytes())),
            kept.programs[0].arena_bytes());
  EXPECT_EQ(pipeline.programs[1].arena_bytes(), kept.programs[1].arena_bytes());
}

// Between I and W of one micro-batch comes the F of another, which needs the front of a pending slot.
TEST(RecomputationTest, AForwardBorrowsNoMoreThanItNeeds) {
  const SmallPipeline pipeline = MakeSmallPipeline(
      "v_half", {.num_stages = 6, .num_chunks = 2, .num_micro_batches = 6, .recomputes = Every(1, 6)});
  const v1::StageSlots& stage = pipeline.programs[0].stages(0);
  const uint64_t remade = AlignUp(pipeline.graph.layers(1).cost().shared_bytes());
  ASSERT_EQ(stage.pending_size(), 2);
  EXPECT_EQ(std::min(stage.pending(0).bytes(), stage.pending(1).bytes()), remade);
  EXPECT_GT(std::max(stage.pending(0).bytes(), stage.pending(1).bytes()), remade);
}

TEST(RecomputationTest, TextsAndSheetsAreReadBack) {
  const SmallPipeline pipeline =
      MakeSmallPipeline("zb_h1", {.num_stages = 3, .num_micro_batches = 4, .recomputes = {true, true, false}});
  std::string text;
  for (const v1::StageProgram& program : pipeline.programs) text += ProgramText(program);
  EXPECT_THAT(text, AllOf(HasSubstr(" recomputes 1\n"), HasSubstr("\n0R0 shared 0 pending 0 recomputed 0\n")));
  const auto read = ParseProgramText(text);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ((*read)[i].content_hash(), pipeline.programs[i].content_hash());
  EXPECT_TRUE(ProvePrograms(*read, SendSemantics::kRendezvous).ok());

  const auto sheet = ReadActionCsv(*LoweredCsv(pipeline.programs));
  ASSERT_TRUE(sheet.ok()) << sheet.status();
  const auto programs = ProgramsOfSheet(*sheet);
  ASSERT_TRUE(programs.ok()) << programs.status();
  const auto proven = ProvePrograms(*programs, SendSemantics::kRendezvous);
  EXPECT_TRUE(proven.ok()) << proven.status();
}

// 1F1B of two stages: worker 0 recomputes while it waits for the gradient.
TEST(RecomputationTest, TheSimulatorTimesIt) {
  ScheduleProblem problem{.num_workers = 2, .num_micro_batches = 1};
  problem.cost_of_stage = {{1, 1, 1, 0.5}, {1, 1, 1, 0.75}};
  const auto table = BuildRecomputing(**FindSchedule("1f1b"), problem, {true, true});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(ComputeCsv(*table), "0F0,0R0,0B0\n1F0,1R0,1B0\n");
  const auto timeline = Simulate(*table, problem);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  EXPECT_EQ(timeline->workers[0][1].start, 1);
  EXPECT_EQ(timeline->workers[0][1].end, 1.5);
  EXPECT_EQ(timeline->workers[1][1].start, 2);
  EXPECT_EQ(timeline->workers[1][2].start, 2.75);
  EXPECT_EQ(timeline->workers[0][2].start, 4.75);
  EXPECT_EQ(timeline->makespan, 6.75);
  EXPECT_EQ(timeline->lower_bound, 6.75);
  EXPECT_NEAR(timeline->bubble_ratio_span, 1 - (3.5 + 3.75) / 2 / 6.75, 1e-12);
}

TEST(RecomputationTest, TheMemoryCurveLeavesOutWhatIsNotHeld) {
  ScheduleProblem problem{.num_workers = 2, .num_micro_batches = 4};
  const auto table = BuildRecomputing(**FindSchedule("gpipe"), problem, {true, false});
  ASSERT_TRUE(table.ok()) << table.status();
  const auto timeline = Simulate(*table, problem);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  EXPECT_EQ(timeline->peak_activations, (std::vector<double>{1, 4}));
  EXPECT_EQ(timeline->peak_pending_weight, (std::vector<double>{1, 1}));
  const std::vector<MemoryPoint> curve = MemoryCurves(*timeline)[0];
  // The end of F0 is the start of F1, and nothing is held between the last F and the first R.
  EXPECT_EQ(curve[1].seconds, 1);
  EXPECT_EQ(curve[1].activations, 0);
  EXPECT_EQ(curve.back().activations, 0);
}

std::string Refusal(const SmallPipeline& pipeline) {
  const absl::Status status = pipeline.Verified();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

// The first instruction of the kind.
int Find(const v1::StageProgram& program, v1::ActionKind kind) {
  int index = 0;
  while (program.instructions(index).action().kind() != kind) ++index;
  return index;
}

class RefusedRecomputationTest : public ::testing::Test {
 protected:
  v1::Instruction& First(v1::ActionKind kind) { return *program_.mutable_instructions(Find(program_, kind)); }

  SmallPipeline pipeline_ =
      MakeSmallPipeline("zb_h1", {.num_stages = 2, .num_micro_batches = 3, .recomputes = {true, false}});
  v1::StageProgram& program_ = pipeline_.programs[0];
};

TEST_F(RefusedRecomputationTest, WhatIsMissingOrThereTwice) {
  const v1::StageProgram before = program_;
  program_.mutable_instructions()->DeleteSubrange(Find(program_, v1::ACTION_KIND_RECOMPUTE), 1);
  EXPECT_THAT(Refusal(pipeline_), AllOf(HasSubstr("(0I0)"), HasSubstr("holds nothing")));
  program_ = before;
  v1::Instruction& next = *program_.mutable_instructions(Find(program_, v1::ACTION_KIND_RECOMPUTE) + 1);
  next = First(v1::ACTION_KIND_RECOMPUTE);
  EXPECT_THAT(Refusal(pipeline_), AllOf(HasSubstr("(0R0)"), HasSubstr("runs a second time")));
}

TEST_F(RefusedRecomputationTest, SlotsThatAreWrong) {
  const v1::StageProgram before = program_;
  First(v1::ACTION_KIND_RECOMPUTE).set_recomputed_slot(-1);
  EXPECT_THAT(Refusal(pipeline_), HasSubstr("lacks one that it uses"));
  program_ = before;
  First(v1::ACTION_KIND_FORWARD).set_recomputed_slot(-1);
  EXPECT_THAT(Refusal(pipeline_), AllOf(HasSubstr("(0F0)"), HasSubstr("lacks one that it uses")));
  program_ = before;
  program_.mutable_stages(0)->mutable_recomputed(0)->set_bytes(64);
  EXPECT_THAT(Refusal(pipeline_), HasSubstr("a recomputed slot of 64 bytes"));
  program_ = before;
  const int32_t used = First(v1::ACTION_KIND_RECOMPUTE).pending_slot();
  program_.mutable_stages(0)->mutable_pending(used)->set_bytes(
      AlignUp(pipeline_.graph.layers(1).cost().shared_bytes()));
  EXPECT_THAT(Refusal(pipeline_), HasSubstr("a pending slot of"));
  program_ = before;
  program_.mutable_stages(0)->mutable_recomputed(0)->set_offset(program_.stages(0).shared(0).offset());
  EXPECT_THAT(Refusal(pipeline_), HasSubstr("whose bytes another slot in use shares"));
}

TEST_F(RefusedRecomputationTest, APlanThatDiffers) {
  v1::StagePlan& stage = *pipeline_.plan.mutable_stages(0);
  stage.clear_recomputed_layers();
  EXPECT_THAT(Refusal(pipeline_), HasSubstr("does not recompute the layers of stage 0 that the plan says"));
  program_.mutable_stages(0)->clear_recomputed_layers();
  EXPECT_THAT(Refusal(pipeline_), HasSubstr("a saved slot of 256 bytes"));
  stage.add_recomputed_layers(0);
  EXPECT_THAT(Refusal(pipeline_), HasSubstr("stage 0 cannot recompute layer 0: it recomputes blocks among its layers"));
  stage.set_recomputed_layers(0, 2);
  EXPECT_THAT(Refusal(pipeline_), HasSubstr("stage 0 cannot recompute layer 2"));
  stage.set_recomputed_layers(0, 1);
  stage.add_recomputed_layers(1);
  EXPECT_THAT(Refusal(pipeline_), HasSubstr("in order"));
}

TEST_F(RefusedRecomputationTest, TablesThatLackAnRAreNotLowered) {
  v1::ComputeTable table = pipeline_.table;
  auto& actions = *table.mutable_workers(0)->mutable_actions();
  int index = 0;
  while (actions[index].kind() != v1::ACTION_KIND_RECOMPUTE) ++index;
  actions.SwapElements(index, index + 1);
  EXPECT_THAT(std::string(Lower(table, pipeline_.graph, pipeline_.plan, {}).status().message()),
              HasSubstr("0I0 does not come after the R of its micro-batch"));
  table = pipeline_.table;
  table.mutable_workers(1)->mutable_actions(1)->set_kind(v1::ACTION_KIND_RECOMPUTE);
  EXPECT_THAT(std::string(Lower(table, pipeline_.graph, pipeline_.plan, {}).status().message()),
              HasSubstr("the plan of its stage has no layers to recompute"));
}

}  // namespace
}  // namespace stagecoach
