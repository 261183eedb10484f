#include "coordinator/program/lowering.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "common/memory_layout.h"
#include "coordinator/program/slot_sizes.h"
#include "coordinator/program/testing/small_pipeline.h"
#include "coordinator/schedule/schedule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using ::testing::AnyOf;
using testing::BreadthFirstTable;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::MakeSmallPipeline;
using ::testing::Not;
using testing::SmallPipeline;

std::string Actions(const v1::StageProgram& program) {
  return absl::StrJoin(program.instructions(), " ", [](std::string* out, const v1::Instruction& instruction) {
    out->append(ActionText(instruction.action()));
  });
}

// Down the workers and up again: the lowest of the V, 1 and 2, are both on worker 1, and so is each end of the pipeline
// on worker 0.
SmallPipeline MakeV(bool tied) { return MakeSmallPipeline(BreadthFirstTable({0, 1, 1, 0}, 2), {.tied = tied}); }

TEST(LoweringTest, OneStageLoadsOnceAndReducesItsTieAlone) {
  const SmallPipeline pipeline = MakeSmallPipeline("1f1b", {.num_stages = 1, .num_micro_batches = 2});
  EXPECT_EQ(Actions(pipeline.programs[0]), "0LOAD0 0F0 0LOSS0 0I0 0W0 0LOAD1 0F1 0LOSS1 0I1 0W1 0TIE_REDUCE 0NORM");
}

TEST(LoweringTest, ReceivesArePostedShortlyBeforeTheirSenderIssuesAndGradientsLeaveBeforeW) {
  const SmallPipeline pipeline = MakeSmallPipeline("1f1b", {.num_stages = 2, .num_micro_batches = 3});
  EXPECT_EQ(Actions(pipeline.programs[0]),
            "0RECV_B0 0LOAD0 0F0 0SEND_F0 0LOAD1 0F1 0SEND_F1 0I0 0RECV_B1 0W0 0LOAD2 0F2 0SEND_F2 0I1 0RECV_B2 0W1 "
            "0I2 0W2 0SEND_TIE 0RECV_TIE 0TIE_REDUCE 0NORM");
  EXPECT_EQ(Actions(pipeline.programs[1]),
            "1RECV_F0 1LOAD0 1F0 1LOSS0 1RECV_F1 1I0 1SEND_B0 1W0 1LOAD1 1F1 1LOSS1 1RECV_F2 1I1 1SEND_B1 1W1 "
            "1LOAD2 1F2 1LOSS2 1I2 1SEND_B2 1W2 1RECV_TIE 1SEND_TIE 1TIE_REDUCE 1NORM");
}

TEST(LoweringTest, ForwardOnlyKeepsOneMicroBatchAndHasNoGradientChannels) {
  const SmallPipeline pipeline = MakeSmallPipeline("forward_only", {.num_stages = 2, .num_micro_batches = 3});
  EXPECT_EQ(Actions(pipeline.programs[1]),
            "1RECV_F0 1LOAD0 1F0 1LOSS0 1RECV_F1 1LOAD1 1F1 1LOSS1 1RECV_F2 1LOAD2 1F2 1LOSS2");
  for (const v1::StageProgram& program : pipeline.programs) {
    EXPECT_TRUE(program.forward_only());
    EXPECT_EQ(program.channels_size(), 1);
    EXPECT_EQ(program.stages(0).load_size(), 1);
    EXPECT_EQ(program.stages(0).saved_size(), 1);
    EXPECT_EQ(program.stages(0).shared_size(), 1);
    EXPECT_EQ(program.stages(0).pending_size(), 0);
  }
}

TEST(LoweringTest, EvaluationUsesChannelsOfTraining) {
  const SmallPipeline training = MakeSmallPipeline("1f1b", {.num_stages = 3, .num_micro_batches = 4});
  const SmallPipeline evaluation = MakeSmallPipeline("forward_only", {.num_stages = 3, .num_micro_batches = 4});
  for (size_t worker = 0; worker < 3; ++worker) {
    for (v1::ChannelSpec channel : evaluation.programs[worker].channels()) {
      const auto& channels = training.programs[worker].channels();
      EXPECT_TRUE(std::any_of(channels.begin(), channels.end(), [&channel](const v1::ChannelSpec& other) {
        channel.set_num_slots(other.num_slots());  // a worker opens as many as either needs
        return other.SerializeAsString() == channel.SerializeAsString();
      }));
    }
  }
}

TEST(LoweringTest, OneForwardOneBackwardNeedsAsManySlotsAsMicroBatchesInFlight) {
  for (uint32_t p = 1; p <= 5; ++p) {
    for (const uint32_t m : {1u, 2u, 8u}) {
      const SmallPipeline pipeline = MakeSmallPipeline("1f1b", {.num_stages = p, .num_micro_batches = m});
      for (uint32_t stage = 0; stage < p; ++stage) {
        const v1::StageSlots& slots = pipeline.programs[stage].stages(0);
        EXPECT_EQ(slots.saved_size(), static_cast<int>(std::min(m, p - stage)));
        EXPECT_EQ(slots.shared_size(), static_cast<int>(std::min(m, p - stage)));
        EXPECT_EQ(slots.pending_size(), 1);
        EXPECT_EQ(slots.load_size(), stage == 0 || stage + 1 == p ? 1 : 0);
      }
    }
  }
}

TEST(LoweringTest, SlotsFollowTheLayoutOfAStage) {
  const SmallPipeline pipeline = MakeSmallPipeline("gpipe", {.num_stages = 2, .num_micro_batches = 3});
  const v1::StageProgram& program = pipeline.programs[1];
  uint64_t saved = 0, shared = 0, pending = 0, scratch = 0;
  for (int layer = 2; layer <= 4; ++layer) {
    const v1::LayerCost& cost = pipeline.graph.layers(layer).cost();
    saved += AlignUp(cost.saved_bytes());
    shared += AlignUp(cost.input_bytes()) + AlignUp(cost.shared_bytes());
    pending += (layer == 4 ? 64 : AlignUp(cost.output_bytes())) + AlignUp(cost.pending_bytes());
    scratch = std::max(scratch, AlignUp(cost.scratch_bytes()));
  }
  for (const v1::Slot& slot : program.stages(0).saved()) EXPECT_EQ(slot.bytes(), saved);
  for (const v1::Slot& slot : program.stages(0).shared()) EXPECT_EQ(slot.bytes(), shared);
  EXPECT_EQ(program.stages(0).pending(0).bytes(), pending);
  EXPECT_EQ(program.stages(0).load(0).bytes(), 2 * AlignUp(2 * 20 * 4));
  EXPECT_EQ(program.scratch().bytes(), scratch);
  const SlotSizes forward_only = SlotSizesOf(pipeline.graph, {2, 4}, true);
  EXPECT_EQ(forward_only.saved, saved);
  EXPECT_EQ(forward_only.shared, shared);
  EXPECT_EQ(forward_only.scratch, scratch);
  EXPECT_EQ(forward_only.pending, 0u);
}

TEST(LoweringTest, ThePlanOfAWorkersStagesIsItsArena) {
  std::vector<SmallPipeline> pipelines = {MakeV(true), MakeV(false)};
  for (const char* schedule : {"gpipe", "1f1b", "forward_only"}) {
    pipelines.push_back(MakeSmallPipeline(schedule, {.num_stages = 3, .num_micro_batches = 4}));
  }
  for (const SmallPipeline& pipeline : pipelines) {
    std::vector<uint64_t> planned(pipeline.programs.size());
    for (const v1::StagePlan& stage : pipeline.plan.stages()) {
      const v1::StageMemory& memory = stage.memory_bytes();
      planned[stage.worker_rank()] +=
          memory.activations() + memory.pending_weight() + memory.receive() + memory.scratch();
    }
    for (size_t worker = 0; worker < planned.size(); ++worker) {
      EXPECT_EQ(pipeline.programs[worker].arena_bytes(), planned[worker]);
    }
  }
}

TEST(LoweringTest, TiedTensorCountsOnBothStagesAndTwiceAsGradient) {
  const SmallPipeline one = MakeSmallPipeline("1f1b", {.num_stages = 1, .num_micro_batches = 1});
  const uint64_t wte = 16 * 4, wpe = 20 * 4, block = 4 * 12, norm = 4;
  EXPECT_EQ(one.plan.stages(0).parameters(), wte + wpe + block + norm);
  EXPECT_EQ(one.plan.stages(0).memory_bytes().parameters(), 4 * (wte + wpe + block + norm));
  EXPECT_EQ(one.plan.stages(0).memory_bytes().gradients(), 4 * (2 * wte + wpe + block + norm));
  EXPECT_EQ(one.plan.stages(0).memory_bytes().optimizer(), 8 * (wte + wpe + block + norm));
  const SmallPipeline two = MakeSmallPipeline("1f1b", {.num_stages = 2, .num_micro_batches = 1});
  EXPECT_EQ(two.plan.stages(0).parameters(), wte + wpe + block);
  EXPECT_EQ(two.plan.stages(1).parameters(), block + norm + wte);
}

TEST(LoweringTest, ContentHashCoversEveryFieldButItself) {
  SmallPipeline pipeline = MakeSmallPipeline("1f1b", {.num_stages = 2, .num_micro_batches = 2});
  v1::StageProgram& program = pipeline.programs[0];
  EXPECT_EQ(program.content_hash().size(), 16u);
  EXPECT_EQ(program.content_hash(), ContentHash(program));
  EXPECT_NE(program.content_hash(), pipeline.programs[1].content_hash());
  program.mutable_instructions(3)->set_saved_slot(7);
  EXPECT_NE(program.content_hash(), ContentHash(program));
}

TEST(LoweringTest, RefusesATableOfAnotherPlan) {
  const SmallPipeline pipeline = MakeSmallPipeline("1f1b", {.num_stages = 2, .num_micro_batches = 2});
  const SmallPipeline other = MakeSmallPipeline("1f1b", {.num_stages = 3, .num_micro_batches = 2});
  EXPECT_EQ(Lower(other.table, pipeline.graph, pipeline.plan, {}).status().code(), absl::StatusCode::kInvalidArgument);
  v1::ComputeTable table = pipeline.table;
  table.mutable_workers(0)->mutable_actions(0)->set_stage(1);
  EXPECT_THAT(std::string(Lower(table, pipeline.graph, pipeline.plan, {}).status().message()), HasSubstr("1F0"));
  table = pipeline.table;
  table.mutable_workers(1)->mutable_actions()->SwapElements(0, 2);
  EXPECT_THAT(std::string(Lower(table, pipeline.graph, pipeline.plan, {}).status().message()),
              HasSubstr("first in, first out"));
  table = pipeline.table;
  table.mutable_workers(1)->mutable_actions()->SwapElements(0, 1);
  EXPECT_FALSE(Lower(table, pipeline.graph, pipeline.plan, {}).ok());
  EXPECT_FALSE(Lower(pipeline.table, pipeline.graph, pipeline.plan, {.credit_window = 0}).ok());
}

TEST(LoweringTest, NeighboursOnOneWorkerHandOverWithoutPosts) {
  const SmallPipeline pipeline = MakeV(false);
  EXPECT_EQ(Actions(pipeline.programs[1]),
            "1RECV_F0 1F0 1RECV_F1 1F1 2RECV_B0 2F0 2SEND_F0 2F1 2SEND_F1 "
            "2I0 2RECV_B1 2I1 1I0 1SEND_B0 1I1 1SEND_B1 1W0 1W1 2W0 2W1 1NORM 2NORM");
  const v1::StageProgram& program = pipeline.programs[1];
  int num_local = 0;
  for (int i = 0; i < program.channels_size(); ++i) {
    const v1::ChannelSpec& channel = program.channels(i);
    if (channel.from_worker_rank() != channel.to_worker_rank()) continue;
    ++num_local;
    EXPECT_EQ(channel.num_slots(), 2u);  // both micro-batches are between the two stages
    EXPECT_EQ(program.channel_slots(i).slots_size(), 2);
  }
  EXPECT_EQ(num_local, 2);
  EXPECT_TRUE(pipeline.Verified().ok()) << pipeline.Verified();
}

TEST(LoweringTest, ATieWithinAWorkerIsHandedOverBeforeEitherSumIsMade) {
  const SmallPipeline pipeline = MakeV(true);
  EXPECT_THAT(Actions(pipeline.programs[0]), EndsWith("0SEND_TIE 3SEND_TIE 0TIE_REDUCE 0NORM 3TIE_REDUCE 3NORM"));
  EXPECT_THAT(Actions(pipeline.programs[0]), Not(HasSubstr("RECV_TIE")));
  EXPECT_TRUE(pipeline.Verified().ok()) << pipeline.Verified();
}

TEST(LoweringTest, OneWorkerWithAllStagesHasNoPostsAtAll) {
  const SmallPipeline pipeline = MakeSmallPipeline(BreadthFirstTable({0, 0, 0, 0}, 3), {});
  EXPECT_EQ(pipeline.programs.size(), 1u);
  for (const v1::Instruction& instruction : pipeline.programs[0].instructions()) {
    EXPECT_THAT(ActionText(instruction.action()),
                Not(AnyOf(HasSubstr("SEND_F"), HasSubstr("SEND_B"), HasSubstr("RECV"))));
  }
  EXPECT_TRUE(pipeline.Verified().ok()) << pipeline.Verified();
}

TEST(LoweringTest, AnActionBeforeTheNeighbourOnItsWorkerIsRefused) {
  SmallPipeline pipeline = MakeSmallPipeline(BreadthFirstTable({0, 0}, 1), {});
  pipeline.table.mutable_workers(0)->mutable_actions()->SwapElements(0, 1);
  EXPECT_EQ(Lower(pipeline.table, pipeline.graph, pipeline.plan, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(LoweringTest, SlotsThatAreNeverInUseAtOnceShareBytes) {
  const SmallPipeline pipeline = MakeV(true);
  for (const v1::StageProgram& program : pipeline.programs) {
    uint64_t sum = program.scratch().bytes();
    for (const v1::StageSlots& stage : program.stages()) {
      for (const auto* slots : {&stage.load(), &stage.saved(), &stage.shared(), &stage.pending()}) {
        for (const v1::Slot& slot : *slots) sum += slot.bytes();
      }
    }
    for (const v1::ChannelSlots& channel : program.channel_slots()) {
      for (const v1::Slot& slot : channel.slots()) sum += slot.bytes();
    }
    EXPECT_LT(program.arena_bytes(), sum);
  }
}

}  // namespace
}  // namespace stagecoach
