#include "tests/simulation/simulation.h"

#include <string>

#include "gtest/gtest.h"

namespace stagecoach::simulation {
namespace {

constexpr uint64_t kSeedsOfCase = STAGECOACH_SEEDS_OF_CASE;

std::string Describe(uint64_t seed, const SimulationOutcome& outcome) {
  std::string text = "simulation --seed " + std::to_string(seed) + " --trace\n" + *outcome.violation + "\n";
  for (const std::string& line : outcome.last_events) text += line + "\n";
  return text;
}

// Four cases, so that they run at the same time.
class SimulationTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(SimulationTest, LawsHoldUnderEveryFault) {
  ReportOnAbort();
  uint64_t num_succeeded = 0;
  for (uint64_t seed = GetParam(); seed < GetParam() + kSeedsOfCase; ++seed) {
    const SimulationOutcome outcome = Simulate({.seed = seed});
    ASSERT_FALSE(outcome.violation.has_value()) << Describe(seed, outcome);
    num_succeeded += outcome.num_succeeded;
  }
  // Faults that end every job would show nothing.
  EXPECT_GT(num_succeeded, kSeedsOfCase / 2);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SimulationTest, ::testing::Values(0, 250, 500, 750));

TEST(SimulationTest, EqualSeedsGiveEqualTraces) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const SimulationOutcome first = Simulate({.seed = seed});
    const SimulationOutcome second = Simulate({.seed = seed});
    EXPECT_EQ(first.trace_hash, second.trace_hash) << "seed " << seed;
    EXPECT_EQ(first.num_events, second.num_events) << "seed " << seed;
  }
}

struct Expected {
  PlantedBug bug;
  std::string name;
  std::string law;  // that it breaks
};

class PlantedBugTest : public ::testing::TestWithParam<Expected> {};

TEST_P(PlantedBugTest, IsFoundWithinAThousandSeeds) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const SimulationOutcome outcome = Simulate({.seed = seed, .bug = GetParam().bug});
    if (outcome.violation.has_value() && outcome.violation->starts_with(GetParam().law)) return;
  }
  FAIL() << GetParam().name << " was not found";
}

INSTANTIATE_TEST_SUITE_P(
    Bugs, PlantedBugTest,
    ::testing::Values(Expected{PlantedBug::kDropPreparedGradients, "DropPreparedGradients", "commit law"},
                      Expected{PlantedBug::kApplyTwice, "ApplyTwice", "commit law"},
                      Expected{PlantedBug::kAcceptOldEpoch, "AcceptOldEpoch", "fencing law"},
                      Expected{PlantedBug::kLoseCommitRecord, "LoseCommitRecord", "journal"},
                      Expected{PlantedBug::kBlameWaitingWorker, "BlameWaitingWorker", "root cause"}),
    [](const auto& bug) { return bug.param.name; });

}  // namespace
}  // namespace stagecoach::simulation
