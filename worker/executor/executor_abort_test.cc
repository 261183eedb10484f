// Abort of a run from every state that it can be in.
#include <gtest/gtest.h>

#include "common/clock.h"
#include "common/named_thread.h"
#include "tests/testing/worker/executor_harness.h"

namespace stagecoach {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr absl::Duration kAbortBound = absl::Seconds(1);
#else
constexpr absl::Duration kAbortBound = absl::Milliseconds(100);
#endif

class ExecutorAbortTest : public testing::Test {
 protected:
  // Runs worker `rank` alone, aborts it once `is_there`, and gives what Run returned.
  absl::Status AbortWhen(ExecutorHarness& harness, uint32_t rank, const std::function<bool()>& is_there) {
    ExecutorHarness::Worker& worker = harness.worker(rank);
    absl::Status returned;
    NamedThread running("executor", [&] { returned = worker.executor->Run(harness.Order(1, 0, {2, 2, 2})).status(); });
    while (!is_there()) std::this_thread::yield();
    const absl::Duration start = Clock::Real().Now();
    worker.executor->Abort();
    worker.transport->Abort(absl::AbortedError("a new epoch"));
    running.Join();
    EXPECT_LT(Clock::Real().Now() - start, kAbortBound);
    return returned;
  }
  static bool IsWaiting(ExecutorHarness& harness, uint32_t rank, v1::ActionKind kind) {
    const ExecutorHarness::Worker& worker = harness.worker(rank);
    const ExecutorProgress progress = worker.executor->progress();
    return progress.waiting &&
           worker.program.instructions(static_cast<int>(progress.instruction)).action().kind() == kind;
  }

  const PipelineShape shape_{.num_stages = 2, .num_micro_batches = 3};
};

TEST_F(ExecutorAbortTest, WhileComputing) {
  ExecutorHarness harness(shape_);
  std::atomic<bool> computing{false};
  harness.worker(0).options.hook = [&](const char*, const MicroBatch& micro_batch) {
    computing.store(true);
    while (micro_batch.stream->CheckNotCancelled().ok()) std::this_thread::yield();
    return micro_batch.stream->CheckNotCancelled();
  };
  harness.Rebuild(0);
  const absl::Status returned = AbortWhen(harness, 0, [&] { return computing.load(); });
  EXPECT_EQ(returned.code(), absl::StatusCode::kAborted) << returned;
  EXPECT_EQ(returned.message().substr(0, 5), "0F0: ");
}

TEST_F(ExecutorAbortTest, WhileWaitingToSend) {
  ExecutorHarness harness(shape_);
  // The third forward needs the slot that the peer, which does not run, has not emptied.
  const absl::Status returned = AbortWhen(harness, 0, [&] { return IsWaiting(harness, 0, v1::ACTION_KIND_FORWARD); });
  EXPECT_EQ(returned, absl::AbortedError("0F2: a new epoch"));
}

TEST_F(ExecutorAbortTest, WhileWaitingToReceive) {
  ExecutorHarness harness(shape_);
  const absl::Status returned = AbortWhen(harness, 1, [&] { return IsWaiting(harness, 1, v1::ACTION_KIND_FORWARD); });
  EXPECT_EQ(returned, absl::AbortedError("1F0: a new epoch"));
}

TEST_F(ExecutorAbortTest, WhileTheDeviceDoesNotComplete) {
  ExecutorHarness harness({.num_stages = 1, .num_micro_batches = 3}, {.asynchronous = true});
  FakeDevice& device = harness.worker(0).device;
  device.completes.store(false);
  const absl::Status returned = AbortWhen(harness, 0, [&] { return device.num_waits.load() > 0; });
  EXPECT_EQ(returned.code(), absl::StatusCode::kAborted) << returned;
}

TEST_F(ExecutorAbortTest, BeforeTheRun) {
  ExecutorHarness harness(shape_);
  EXPECT_EQ(AbortWhen(harness, 0, [] { return true; }).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(harness.worker(0).executor->Run(harness.Order(1, 0, {2, 2, 2})).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(ExecutorAbortTest, PeersOfAnAbortedWorkerAreUnavailable) {
  ExecutorHarness harness(shape_);
  absl::Status returned;
  NamedThread running("executor", [&] {
    returned = harness.worker(1).executor->Run(harness.Order(1, 0, {2, 2, 2})).status();
  });
  while (!IsWaiting(harness, 1, v1::ACTION_KIND_FORWARD)) std::this_thread::yield();
  harness.worker(0).transport->Abort(absl::AbortedError("gone"));
  running.Join();
  EXPECT_EQ(returned.code(), absl::StatusCode::kUnavailable) << returned;
}

}  // namespace
}  // namespace stagecoach
