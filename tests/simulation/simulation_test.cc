#include "tests/simulation/simulation.h"

#include "gtest/gtest.h"

namespace stagecoach::simulation {
namespace {

TEST(SimulationTest, EqualSeedsGiveEqualTraces) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const SimulationOutcome first = Simulate({.seed = seed});
    const SimulationOutcome second = Simulate({.seed = seed});
    EXPECT_EQ(first.trace_hash, second.trace_hash) << "seed " << seed;
    EXPECT_EQ(first.num_events, second.num_events) << "seed " << seed;
  }
}

}  // namespace
}  // namespace stagecoach::simulation
