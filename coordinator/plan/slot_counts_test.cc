#include "coordinator/plan/slot_counts.h"

#include <string>
#include <tuple>

#include "coordinator/plan/layer_loads.h"
#include "coordinator/plan/worker_loads.h"
#include "coordinator/program/testing/small_pipeline.h"
#include "coordinator/schedule/schedule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

std::vector<StageSlotCounts> CountsOf(const std::string& schedule, uint32_t num_workers, uint32_t num_micro_batches) {
  return SlotCountsOf(
      *(*FindSchedule(schedule))->Build({.num_workers = num_workers, .num_micro_batches = num_micro_batches}));
}

TEST(SlotCountsTest, StagesOf1f1bHoldAsManyMicroBatchesAsAreBehindThem) {
  const std::vector<StageSlotCounts> counts = CountsOf("1f1b", 3, 8);
  EXPECT_EQ(counts[0],
            (StageSlotCounts{.load = 1, .saved = 3, .shared = 3, .pending = 1, .remade = 1, .transfers_behind = 4}));
  EXPECT_EQ(counts[1],
            (StageSlotCounts{
                .saved = 2, .shared = 2, .pending = 1, .remade = 1, .transfers_before = 4, .transfers_behind = 4}));
  EXPECT_EQ(counts[2],
            (StageSlotCounts{.load = 1, .saved = 1, .shared = 1, .pending = 1, .remade = 1, .transfers_before = 4}));
}

TEST(SlotCountsTest, StagesOfGpipeHoldAllMicroBatches) {
  for (const StageSlotCounts& counts : CountsOf("gpipe", 3, 8)) {
    EXPECT_EQ(counts.saved, 8u);
    EXPECT_EQ(counts.shared, 8u);
    EXPECT_EQ(counts.pending, 1u);
  }
}

// A forward between I and W of another micro-batch of its stage has activations of its own to put somewhere.
TEST(SlotCountsTest, WhatAForwardMakesIsCountedWithWhatIsPending) {
  const std::vector<StageSlotCounts> counts =
      SlotCountsOf(*(*FindSchedule("v_half"))->Build({.num_workers = 3, .num_chunks = 2, .num_micro_batches = 6}));
  EXPECT_EQ(counts[0].pending, 1u);
  EXPECT_EQ(counts[0].remade, 2u);
  EXPECT_EQ(CountsOf("zb_h1", 3, 8)[2].remade, 3u);
}

constexpr StateOptions kState = {.optimizer_bytes_per_element = 8};  // of MakeSmallPipeline

PartitionProblem WithoutTransfers(PartitionProblem problem) {
  for (StageSlotCounts& slots : problem.slots) slots.transfers_before = slots.transfers_behind = 0;
  return problem;
}

// What the partitioner reckons with is what the stages then have, but for transfers and scratch: their bytes are shared
// in turns where that is possible.
TEST(SlotCountsTest, BytesOfAPartitionAreThoseOfItsProgramsAndTransfers) {
  using Layers = std::vector<uint32_t>;
  for (const auto& [schedule, num_stages, recomputes, frozen] :
       {std::tuple("1f1b", 3u, false, Layers{}), std::tuple("gpipe", 2u, false, Layers{}),
        std::tuple("1f1b", 1u, false, Layers{}), std::tuple("1f1b", 4u, false, Layers{}),
        std::tuple("1f1b", 3u, true, Layers{}), std::tuple("gpipe", 2u, true, Layers{}),
        std::tuple("zb_h1", 3u, true, Layers{}), std::tuple("gpipe", 4u, false, Layers{0, 1, 2}),
        std::tuple("1f1b", 4u, false, Layers{2, 3}), std::tuple("zb_h1", 4u, false, Layers{4, 5, 6}),
        std::tuple("gpipe", 4u, true, Layers{2, 3})}) {
    const testing::SmallPipeline pipeline =
        testing::MakeSmallPipeline(schedule, {.num_stages = num_stages,
                                              .num_micro_batches = 6,
                                              .tied = num_stages % 2 == 1,
                                              .recomputes = std::vector<bool>(recomputes ? num_stages : 0, true),
                                              .frozen_layers = frozen});
    PartitionProblem problem{.layers = LayerLoadsOf(pipeline.graph, kState),
                             .workers = std::vector<WorkerCapacity>(num_stages)};
    problem.slots = SlotCountsOf(pipeline.table);
    problem.load_bytes = LoadBytesOf(pipeline.graph);
    problem.tie = TiedLayersOf(pipeline.graph, kState);
    for (LayerLoad& layer : problem.layers) {
      layer.scratch_bytes = 0;
      if (layer.is_block) layer.recompute_seconds = 1;
    }
    const PartitionProblem bare = WithoutTransfers(problem);
    const WorkerLoads loads(problem);
    const WorkerLoads bare_loads(bare);
    for (uint32_t stage = 0; stage < num_stages; ++stage) {
      const v1::StagePlan& plan = pipeline.plan.stages(static_cast<int>(stage));
      const LayerSpan span{plan.first_layer(), plan.last_layer() + 1};
      const v1::StageMemory& memory = plan.memory_bytes();
      const std::vector<uint32_t> recomputed(plan.recomputed_layers().begin(), plan.recomputed_layers().end());
      const uint64_t needed = memory.total() - memory.scratch();
      EXPECT_LE(needed, loads.BytesWith(stage, std::span(&span, 1), std::span(&recomputed, 1)))
          << schedule << " stage " << stage << " of " << num_stages;
      EXPECT_GE(needed, bare_loads.BytesWith(stage, std::span(&span, 1), std::span(&recomputed, 1)))
          << schedule << " stage " << stage << " of " << num_stages;
    }
  }
}

}  // namespace
}  // namespace stagecoach
