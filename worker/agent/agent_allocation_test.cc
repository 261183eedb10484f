// Counts the heap allocations of the executor's thread from one step to the next: commands, run, verdict and answers.
#include <gtest/gtest.h>

#include <vector>

#include "tests/testing/allocation/allocation_counter.h"
#include "tests/testing/worker/agent_harness.h"

namespace stagecoach {
namespace {

TEST(AgentAllocationTest, NoneOnTheExecutorsThreadAfterTheSecondStep) {
  AgentHarness harness({.num_stages = 2, .num_micro_batches = 3});
  std::vector<uint64_t> counts;  // at the first forward of each step
  counts.reserve(100);
  harness.record_calls = false;
  harness.worker(0).hook = [&](const char* kind, const MicroBatch& micro_batch) {
    if (kind[0] == 'F' && micro_batch.index.value() == 0) counts.push_back(AllocationsOfThisThread());
    return absl::OkStatus();
  };
  harness.Assign();
  harness.Connect();
  for (uint64_t step = 1; step <= 20; ++step) {
    harness.PrepareStep(step);
    harness.Commit(step);
  }
  ASSERT_EQ(counts.size(), 20u);
  for (size_t i = 2; i < counts.size(); ++i) EXPECT_EQ(counts[i] - counts[i - 1], 0u) << "step " << i + 1;
}

}  // namespace
}  // namespace stagecoach
