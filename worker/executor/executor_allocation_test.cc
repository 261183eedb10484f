// Counts the heap allocations of runs, on the threads that run.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "common/named_thread.h"
#include "tests/testing/allocation/allocation_counter.h"
#include "tests/testing/worker/executor_harness.h"

namespace stagecoach {
namespace {

// Runs `orders` one after another on a thread a worker; how many allocations each worker's runs made.
std::vector<std::vector<uint64_t>> CountAllocations(ExecutorHarness& harness, const std::vector<v1::RunStep>& orders) {
  std::vector<std::vector<uint64_t>> counts(3, std::vector<uint64_t>(orders.size()));
  std::vector<NamedThread> threads;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back("executor", [&harness, &orders, &mine = counts[rank], rank] {
      ExecutorHarness::Worker& worker = harness.worker(rank);
      for (size_t i = 0; i < orders.size(); ++i) {
        Executor& executor = *(orders[i].evaluation() ? worker.evaluation : worker.executor);
        const uint64_t before = AllocationsOfThisThread();
        const bool ok = executor.Run(orders[i]).ok();
        mine[i] = AllocationsOfThisThread() - before;
        EXPECT_TRUE(ok);
      }
    });
  }
  threads.clear();
  return counts;
}

TEST(ExecutorAllocationTest, CountsAllocations) {
  if (!CanCountAllocations()) GTEST_SKIP() << "the sanitizer has replaced the allocator";
  const uint64_t before = AllocationsOfThisThread();
  const auto allocated = std::make_unique<std::string>(1000, 'x');
  EXPECT_EQ(AllocationsOfThisThread() - before, 2u);
}

TEST(ExecutorAllocationTest, NoneAfterTheSecondRun) {
  PipelineShape shape{.num_stages = 3, .num_micro_batches = 5, .tied = true, .num_skips = 2};
  ExecutorHarness harness(shape, {.asynchronous = false, .record = false});
  PipelineShape evaluation = shape;
  evaluation.forward_only = true;
  harness.AddEvaluation(evaluation);
  std::vector<v1::RunStep> orders;
  for (uint64_t step = 1; step <= 20; ++step) {
    orders.push_back(harness.Order(step, step * 10, {2, 2, 2, 1, 0}));
    orders.push_back(harness.Order(step, 0, {2, 2, 1, 0, 0}));
    orders.back().set_evaluation(true);
  }
  for (const std::vector<uint64_t>& counts : CountAllocations(harness, orders)) {
    for (size_t i = 4; i < counts.size(); ++i) EXPECT_EQ(counts[i], 0u) << "run " << i;
  }
}

}  // namespace
}  // namespace stagecoach
