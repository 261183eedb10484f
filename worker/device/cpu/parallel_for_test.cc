#include "worker/device/cpu/parallel_for.h"

#include <gtest/gtest.h>

#include <vector>

namespace stagecoach {
namespace {

TEST(ParallelForTest, CallsEveryTaskOnceOnThreadsInRange) {
  for (int threads : {1, 2, 3, 8}) {
    for (int64_t tasks : {0, 1, 2, 7, 8, 100}) {
      std::vector<int> calls(static_cast<size_t>(tasks), 0);
      std::vector<int> thread_of(static_cast<size_t>(tasks), -1);
      ParallelForOnThreads(threads, tasks, [&](int64_t task, int thread) {
        ++calls[static_cast<size_t>(task)];
        thread_of[static_cast<size_t>(task)] = thread;
      });
      int previous = 0;
      for (size_t task = 0; task < calls.size(); ++task) {
        EXPECT_EQ(calls[task], 1);
        EXPECT_GE(thread_of[task], previous) << "ranges are contiguous and in order";
        EXPECT_LT(thread_of[task], threads);
        previous = thread_of[task];
      }
    }
  }
}

TEST(ParallelForTest, RunsInlineForOneThread) {
  int64_t sum = 0;  // would race if it did not
  ParallelFor(1, 1000, [&](int64_t task) { sum += task; });
  EXPECT_EQ(sum, 499500);
}

}  // namespace
}  // namespace stagecoach
