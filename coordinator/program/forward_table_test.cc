// Forwards alone over stages placed anywhere.

#include <vector>

#include "coordinator/program/simulator.h"
#include "coordinator/schedule/compute_csv.h"
#include "coordinator/schedule/forward_only.h"
#include "coordinator/schedule/stage_placement.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

std::vector<uint32_t> Placed(StagePlacement placement, uint32_t num_workers, uint32_t num_chunks) {
  std::vector<uint32_t> worker_of_stage;
  for (uint32_t stage = 0; stage < num_workers * num_chunks; ++stage) {
    worker_of_stage.push_back(WorkerOfStage(placement, num_workers, stage));
  }
  return worker_of_stage;
}

TEST(ForwardTableTest, AMicroBatchGoesOnAsSoonAsItCan) {
  EXPECT_EQ(ComputeCsv(ForwardTable(Placed(StagePlacement::kLoop, 2, 2), 4)),
            "0F0,0F1,2F0,2F1,0F2,0F3,2F2,2F3\n"
            "1F0,1F1,3F0,3F1,1F2,1F3,3F2,3F3\n");
  EXPECT_EQ(ComputeCsv(ForwardTable(Placed(StagePlacement::kV, 2, 2), 2)),
            "0F0,0F1,3F0,3F1\n"
            "1F0,2F0,1F1,2F1\n");
}

TEST(ForwardTableTest, LoopsHaveTheBubbleOfTheFormula) {
  for (uint32_t p = 1; p <= 6; ++p) {
    for (uint32_t v = 1; v <= 4; ++v) {
      for (uint32_t m = p; m <= 3 * p; m += p) {
        const v1::ComputeTable table = ForwardTable(Placed(StagePlacement::kLoop, p, v), m);
        const absl::StatusOr<Timeline> timeline =
            Simulate(table, {.num_workers = p, .num_chunks = v, .num_micro_batches = m});
        ASSERT_TRUE(timeline.ok()) << timeline.status();
        EXPECT_EQ(timeline->makespan, v * m + p - 1) << "p=" << p << " v=" << v << " m=" << m;
      }
    }
  }
}

TEST(ForwardTableTest, EveryForwardRunsOnceAndInMicroBatchOrderOnEachStage) {
  const std::vector<std::vector<uint32_t>> placements = {
      {0}, {0, 0, 0}, {1, 0}, {0, 1, 1, 0}, {0, 2, 1, 2, 0}, Placed(StagePlacement::kV, 4, 2)};
  for (const std::vector<uint32_t>& worker_of_stage : placements) {
    for (uint32_t m = 1; m <= 5; ++m) {
      const v1::ComputeTable table = ForwardTable(worker_of_stage, m);
      std::vector<uint32_t> next(worker_of_stage.size());
      for (int worker = 0; worker < table.workers_size(); ++worker) {
        for (const v1::Action& action : table.workers(worker).actions()) {
          EXPECT_EQ(action.kind(), v1::ACTION_KIND_FORWARD);
          EXPECT_EQ(worker_of_stage[action.stage()], static_cast<uint32_t>(worker));
          EXPECT_EQ(action.micro_batch(), next[action.stage()]++);
        }
      }
      EXPECT_EQ(next, std::vector<uint32_t>(worker_of_stage.size(), m));
    }
  }
}

}  // namespace
}  // namespace stagecoach
