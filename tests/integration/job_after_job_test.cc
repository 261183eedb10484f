// Workers take job after job and keep nothing of them: no memory, no thread, no descriptor.
#include <gtest/gtest.h>
#include <malloc.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/message_queue.h"
#include "coordinator/jobs/job_state.h"
#include "tests/integration/embedded_job.h"
#include "tests/testing/embedded/embedded_cluster.h"
#include "worker/registry/device/device_registry.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kTimeout = absl::Minutes(2);
constexpr int kWarmUp = 3;
constexpr int kJobs = 10;

// The coordinator's journal, in memory here, keeps every job.
constexpr int64_t kBytesOfAJobInTheJournal = 48 << 10;

struct Footprint {
  int64_t threads = 0, descriptors = 0, heap_bytes = 0;

  static Footprint Now() {
    const auto count = [](const char* directory) {
      return std::distance(std::filesystem::directory_iterator(directory), std::filesystem::directory_iterator());
    };
    const struct mallinfo2 heap = mallinfo2();
    return {.threads = count("/proc/self/task"),
            .descriptors = count("/proc/self/fd"),
            .heap_bytes = static_cast<int64_t>(heap.uordblks + heap.hblkhd)};
  }
  // Once it stands still: a worker releases a job after the job has ended.
  static Footprint Settled() {
    Footprint last = Now();
    for (int same = 0; same < 10;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      const Footprint now = Now();
      same = now == last ? same + 1 : 0;
      last = now;
    }
    return last;
  }
  bool operator==(const Footprint&) const = default;
};

// Runs it to its end; the digest of its parameters.
std::string RunToItsEnd(Coordinator& coordinator, const v1::JobSpec& spec) {
  v1::SubmitJobRequest submission;
  *submission.mutable_spec() = spec;
  const absl::StatusOr<JobId> job = coordinator.SubmitJob(submission);
  EXPECT_TRUE(job.ok()) << job.status();
  if (!job.ok()) return "";
  auto end = std::make_shared<MessageQueue<absl::Status>>(1);
  v1::FollowJobRequest request;
  request.set_job(job->value());
  EXPECT_TRUE(coordinator
                  .FollowJob(request, {.on_event = [](const v1::JobEvent&) { return absl::OkStatus(); },
                                       .on_end = [end](const absl::Status& why) { EXPECT_TRUE(end->Push(why).ok()); }})
                  .ok());
  EXPECT_TRUE(end->Pop(kTimeout).ok());
  const absl::StatusOr<v1::Job> description = coordinator.DescribeJob(*job);
  EXPECT_TRUE(description.ok()) << description.status();
  if (!description.ok()) return "";
  EXPECT_EQ(description->status().state(), v1::JOB_STATE_SUCCEEDED) << description->status().message();
  return description->digest();
}

TEST(JobAfterJobTest, WorkersKeepNothingOfJobsThatHaveEnded) {
  EmbeddedJob small;
  small.spec().mutable_training()->set_steps(3);
  small.spec().mutable_resources()->set_workers(2);
  const auto cluster = EmbeddedCluster::Create({.num_workers = 2, .device = *FindDevice("cpu")});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  ASSERT_TRUE((*cluster)->StartWorkers(1).ok());
  std::string digest;
  Footprint warm;
  for (int i = 0; i < kWarmUp + kJobs; ++i) {
    if (i == kWarmUp) warm = Footprint::Settled();
    small.spec().set_name(absl::StrCat("job-", i));
    small.spec().mutable_checkpoint()->set_dir(absl::StrCat(small.directory(), "/checkpoints-", i));
    const std::string found = RunToItsEnd((*cluster)->coordinator(), small.spec());
    if (i == 0) digest = found;
    EXPECT_EQ(found, digest) << i;
  }
  const Footprint after = Footprint::Settled();
  EXPECT_EQ(after.threads, warm.threads);
  EXPECT_EQ(after.descriptors, warm.descriptors);
  EXPECT_LT(after.heap_bytes - warm.heap_bytes, kJobs * kBytesOfAJobInTheJournal);
  RecordProperty("heap_growth_bytes", absl::StrCat(after.heap_bytes - warm.heap_bytes));
  std::cout << "threads " << warm.threads << " -> " << after.threads << ", descriptors " << warm.descriptors << " -> "
            << after.descriptors << ", heap " << warm.heap_bytes << " -> " << after.heap_bytes << " bytes\n";
}

}  // namespace
}  // namespace stagecoach
