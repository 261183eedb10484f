#include "coordinator/plan/memory_shortfall.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(MemoryShortfallTest, NamesTheStageThatLacksLeastAndHowMuch) {
  PartitionProblem problem{.layers = std::vector<LayerLoad>(6, {.forward_seconds = 1, .state_bytes = 1'000'000}),
                           .workers = std::vector<WorkerCapacity>(2)};
  problem.workers[0].memory_bytes = 1'900'000;
  problem.workers[1].memory_bytes = 2'400'000;
  // Two and four layers lack 0.1 and 1.6 million; three and three 1.1 and 0.6.
  const MemoryShortfall shortfall = LeastShortfall(problem);
  EXPECT_EQ(shortfall.worker_rank, 0u);
  EXPECT_EQ(shortfall.needed_bytes, 3'000'000u);
  EXPECT_EQ(shortfall.memory_bytes, 1'900'000u);
  const absl::Status error = ShortfallError(problem, shortfall);
  EXPECT_EQ(error.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(error.message()), AllOf(HasSubstr("stage 0 (layers 0 to 2) needs 3000000 bytes"),
                                                  HasSubstr("worker 0 has 1900000"), HasSubstr("1100000 are lacking")));
}

TEST(MemoryShortfallTest, CountsWhatIsLeftWhenAllIsRecomputed) {
  PartitionProblem problem{.layers = std::vector<LayerLoad>(4, {.recompute_seconds = 1, .saved_bytes = 1000}),
                           .workers = std::vector<WorkerCapacity>(1)};
  problem.slots = {{.saved = 5}};
  problem.workers[0].memory_bytes = 3000;
  EXPECT_EQ(LeastShortfall(problem).needed_bytes, 4000u);
}

TEST(MemoryShortfallTest, AWorkerOfAVHasTwoStages) {
  PartitionProblem problem{.layers = std::vector<LayerLoad>(4, {.forward_seconds = 1, .state_bytes = 100}),
                           .workers = std::vector<WorkerCapacity>(2)};
  problem.num_chunks = 2;
  problem.placement = StagePlacement::kV;
  problem.workers[0].memory_bytes = 150;
  EXPECT_THAT(std::string(ShortfallError(problem, LeastShortfall(problem)).message()),
              HasSubstr("stage 0 (layers 0 to 0) and stage 3 (layers 3 to 3) needs 200 bytes"));
}

}  // namespace
}  // namespace stagecoach
