#include "coordinator/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "common/protocol_version.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/journal/memory_store.h"
#include "coordinator/testing/coordinator_test.h"
#include "formats/checkpoint.h"

namespace stagecoach {
namespace {

// Takes so many entries and no more.
class FailingStore : public MemoryStore {
 public:
  explicit FailingStore(int num_good) : num_left_(num_good) {}
  absl::Status Append(const v1::JournalEntry& entry, SyncMode sync) override {
    if (num_left_-- <= 0) return absl::ResourceExhaustedError("the disk is full");
    return MemoryStore::Append(entry, sync);
  }

 private:
  int num_left_;
};

// Records how entries were appended.
class RecordingStore : public MemoryStore {
 public:
  absl::Status Append(const v1::JournalEntry& entry, SyncMode sync) override {
    MutexLock lock(mutex_);
    modes_.emplace_back(entry, sync);
    return MemoryStore::Append(entry, sync);
  }
  std::vector<std::pair<v1::JournalEntry, SyncMode>> modes() const {
    MutexLock lock(mutex_);
    return modes_;
  }

 private:
  mutable Mutex mutex_;
  std::vector<std::pair<v1::JournalEntry, SyncMode>> modes_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(CoordinatorTest, TrainsAJobOnFakeWorkersAndLeavesACheckpoint) {
  const auto coordinator = Start(store_);
  const absl::StatusOr<JobId> job = coordinator->SubmitJob(Submission(Spec(3)));
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_TRUE(coordinator->FollowJob(All(*job), log_.follower()).ok());
  AddWorkers(*coordinator, 3);
  EXPECT_EQ(log_.WaitForEnd(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(log_.steps(), (std::vector<uint64_t>{1, 2, 3, 4}));

  const absl::StatusOr<v1::Job> description = coordinator->DescribeJob(*job);
  ASSERT_TRUE(description.ok());
  EXPECT_EQ(description->status().step(), 4u);
  EXPECT_EQ(description->plan().stages_size(), 3);
  EXPECT_EQ(description->checkpoint_directory(), directory_.Path("checkpoints/step-0000000004"));
  const auto manifest = ReadManifest(files_, description->checkpoint_directory());
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->digest(), description->digest());
  EXPECT_EQ(manifest->state_digest(), description->state_digest());
  workers_.clear();
}

TEST_F(CoordinatorTest, SyncsEveryEntryButCommitRecords) {
  RecordingStore store;
  const auto coordinator = Start(store);
  const JobId job = *coordinator->SubmitJob(Submission(Spec(2)));
  ASSERT_TRUE(coordinator->FollowJob(All(job), log_.follower()).ok());
  AddWorkers(*coordinator, 2);
  EXPECT_EQ(log_.WaitForEnd(), v1::JOB_STATE_SUCCEEDED);
  for (const auto& [entry, mode] : store.modes()) {
    const bool is_repeatable =
        entry.has_step_committed() || entry.has_evaluation_completed() || entry.has_worker_joined();
    EXPECT_EQ(mode, is_repeatable ? SyncMode::kBuffered : SyncMode::kSynced) << entry.ShortDebugString();
  }
  coordinator->Stop();
  workers_.clear();
}

TEST_F(CoordinatorTest, AnswersForUnknownAndDoubleJobs) {
  const auto coordinator = Start(store_);
  const JobId job = *coordinator->SubmitJob(Submission(Spec(1)));
  EXPECT_EQ(coordinator->SubmitJob(Submission(Spec(1))).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(coordinator->DescribeJob(JobId("no")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(coordinator->CancelJob(JobId("no")).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(coordinator->FollowJob(All(JobId("no")), log_.follower()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(coordinator->DescribeJob(job)->status().state(), v1::JOB_STATE_QUEUED);
}

TEST_F(CoordinatorTest, RefusesWorkersThatItCannotUnderstandOrName) {
  const auto coordinator = Start(store_);
  const auto code = [&](const v1::Hello& hello, uint64_t incarnation) {
    return coordinator->ConnectWorker(hello, Incarnation(incarnation), {}).status().code();
  };
  v1::Hello hello = FakeWorker("w", Incarnation(1)).hello();
  EXPECT_EQ(code(hello, 0), absl::StatusCode::kInvalidArgument);
  hello.clear_worker();
  EXPECT_EQ(code(hello, 1), absl::StatusCode::kInvalidArgument);
  hello.set_protocol_version(kProtocolVersion + 1);
  const absl::Status status = coordinator->ConnectWorker(hello, Incarnation(1), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(std::to_string(kProtocolVersion + 1)));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("version " + std::to_string(kProtocolVersion)));
}

TEST_F(CoordinatorTest, ACancelledRunLeavesACheckpoint) {
  const auto coordinator = Start(store_);
  const JobId job = *coordinator->SubmitJob(Submission(Spec(2, /*steps=*/1'000'000'000)));
  ASSERT_TRUE(coordinator->FollowJob(All(job), log_.follower()).ok());
  AddWorkers(*coordinator, 2);
  log_.WaitForStep(1);
  EXPECT_TRUE(coordinator->CancelJob(job).ok());
  EXPECT_EQ(log_.WaitForEnd(), v1::JOB_STATE_CANCELLED);
  EXPECT_FALSE(coordinator->DescribeJob(job)->digest().empty());
  EXPECT_EQ(coordinator->CancelJob(job).code(), absl::StatusCode::kFailedPrecondition);
  workers_.clear();
}

TEST_F(CoordinatorTest, ALostWorkerFailsTheJobAndTheOthersTakeTheNext) {
  const auto coordinator = Start(store_);
  const JobId job = *coordinator->SubmitJob(Submission(Spec(3, /*steps=*/1'000'000'000)));
  ASSERT_TRUE(coordinator->FollowJob(All(job), log_.follower()).ok());
  AddWorkers(*coordinator, 3);
  log_.WaitForStep(2);
  workers_["w1"]->Die();
  EXPECT_EQ(log_.WaitForEnd(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(coordinator->DescribeJob(job)->status().reason(), kReasonWorkerLost);

  JobWatch second;
  const JobId next = *coordinator->SubmitJob(Submission(Spec(2)));
  ASSERT_TRUE(coordinator->FollowJob(All(next), second.follower()).ok());
  EXPECT_EQ(second.WaitForEnd(), v1::JOB_STATE_SUCCEEDED);
  workers_.clear();
}

TEST_F(CoordinatorTest, AWorkerWhoseSinkFailsIsLost) {
  const auto coordinator = Start(store_);
  const JobId job = *coordinator->SubmitJob(Submission(Spec(2, /*steps=*/1'000'000'000)));
  ASSERT_TRUE(coordinator->FollowJob(All(job), log_.follower()).ok());
  AddWorkers(*coordinator, 2);
  log_.WaitForStep(1);
  workers_["w0"]->CloseInbox();
  EXPECT_EQ(log_.WaitForEnd(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(coordinator->DescribeJob(job)->status().reason(), kReasonWorkerLost);
  workers_.clear();
}

TEST_F(CoordinatorTest, BadDataAndAFailedPlanEndTheJobWithTheirReason) {
  const auto coordinator = Start(store_, [](const auto&, const auto&) -> absl::StatusOr<PlannedJob> {
    return absl::InvalidArgumentError("more stages than blocks");
  });
  AddWorkers(*coordinator, 1);
  v1::JobSpec spec = Spec(1);
  spec.mutable_data()->mutable_train(0)->set_path(directory_.Path("nowhere.txt"));
  const JobId no_data = *coordinator->SubmitJob(Submission(spec));
  ASSERT_TRUE(coordinator->FollowJob(All(no_data), log_.follower()).ok());
  EXPECT_EQ(log_.WaitForEnd(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(coordinator->DescribeJob(no_data)->status().reason(), kReasonInvalidData);

  JobWatch second;
  const JobId no_plan = *coordinator->SubmitJob(Submission(Spec(1)));
  ASSERT_TRUE(coordinator->FollowJob(All(no_plan), second.follower()).ok());
  EXPECT_EQ(second.WaitForEnd(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(coordinator->DescribeJob(no_plan)->status().reason(), kReasonPlanningFailed);
  EXPECT_EQ(coordinator->DescribeJob(no_plan)->status().message(), "more stages than blocks");
  workers_.clear();
}

TEST_F(CoordinatorTest, AFullDiskFailsTheCheckpointAndTheJob) {
  files_.Add({.operation = FileOperation::kCommit,
              .path_part = "manifest.json",
              .after = 0,
              .status = absl::ResourceExhaustedError("the disk is full")});
  const auto coordinator = Start(store_);
  const JobId job = *coordinator->SubmitJob(Submission(Spec(1)));
  ASSERT_TRUE(coordinator->FollowJob(All(job), log_.follower()).ok());
  AddWorkers(*coordinator, 1);
  EXPECT_EQ(log_.WaitForEnd(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(coordinator->DescribeJob(job)->status().reason(), kReasonCheckpointFailed);
  workers_.clear();
}

TEST_F(CoordinatorTest, AJournalThatCannotBeWrittenStopsEverything) {
  FailingStore store(/*num_good=*/6);
  MessageQueue<absl::Status> halted(1);
  const auto coordinator =
      *Coordinator::Create({.store = store,
                            .clock = clock_,
                            .files = files_,
                            .planner = PlanSmallJob,
                            .on_halt = [&](const absl::Status& why) { EXPECT_TRUE(halted.Push(why).ok()); }});
  const JobId job = *coordinator->SubmitJob(Submission(Spec(1, /*steps=*/1'000'000)));
  ASSERT_TRUE(coordinator->FollowJob(All(job), log_.follower()).ok());
  AddWorkers(*coordinator, 1);
  EXPECT_EQ(log_.WaitForEnd(), v1::JOB_STATE_UNSPECIFIED);
  EXPECT_THAT(std::string(coordinator->DescribeJob(job).status().message()), testing::HasSubstr("the disk is full"));
  EXPECT_TRUE(absl::IsResourceExhausted(*halted.Pop(kLong)));
  EXPECT_EQ(coordinator->SubmitJob(Submission(Spec(1))).status().code(), absl::StatusCode::kUnavailable);
  workers_.clear();
}

TEST_F(CoordinatorTest, PausesAndResumes) {
  const auto coordinator = Start(store_);
  const JobId job = *coordinator->SubmitJob(Submission(Spec(2, /*steps=*/1'000'000'000)));
  EXPECT_EQ(coordinator->PauseJob(job).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(coordinator->PauseJob(JobId("no")).code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(coordinator->FollowJob(All(job), log_.follower()).ok());
  AddWorkers(*coordinator, 2);
  log_.WaitForStep(1);
  EXPECT_EQ(coordinator->ResumeJob(job).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(coordinator->PauseJob(job).ok());
  EXPECT_TRUE(coordinator->PauseJob(job).ok());
  EXPECT_EQ(coordinator->DescribeJob(job)->status().state(), v1::JOB_STATE_PAUSED);
  const uint64_t step = coordinator->DescribeJob(job)->status().step();
  EXPECT_TRUE(coordinator->ResumeJob(job).ok());
  log_.WaitForStep(step + 2);
  EXPECT_TRUE(coordinator->CancelJob(job).ok());
  EXPECT_EQ(log_.WaitForEnd(), v1::JOB_STATE_CANCELLED);
  workers_.clear();
}

TEST_F(CoordinatorTest, ListsJobsInTheOrderOfSubmissionAndWorkersByName) {
  const auto coordinator = Start(store_);
  for (const char* name : {"z", "a"}) {
    v1::JobSpec spec = Spec(3, /*steps=*/1'000'000'000);
    spec.set_name(name);
    ASSERT_TRUE(coordinator->SubmitJob(Submission(spec)).ok());
  }
  AddWorkers(*coordinator, 2);
  const v1::ListJobsResponse jobs = *coordinator->ListJobs();
  ASSERT_EQ(jobs.jobs_size(), 2);
  EXPECT_EQ(jobs.jobs(0).status().job(), "z");
  EXPECT_FALSE(jobs.jobs(0).has_spec());
  EXPECT_EQ(jobs.jobs(0).submitted().seconds(), 1'000'000);
  const v1::ListWorkersResponse workers = *coordinator->ListWorkers();
  ASSERT_EQ(workers.workers_size(), 2);
  EXPECT_EQ(workers.workers(1).name(), "w1");
  EXPECT_EQ(workers.workers(1).state(), v1::WORKER_STATE_IDLE);
  coordinator->Stop();
  workers_.clear();
}

// An append that takes for ever, until it is let go.
class StuckStore : public MemoryStore {
 public:
  absl::Status Append(const v1::JournalEntry& entry, SyncMode sync) override {
    if (entry.has_job_submitted() && go_on_.Pop(kLong).ok()) return absl::InternalError("nothing was pushed");
    return MemoryStore::Append(entry, sync);
  }
  void LetGo() { go_on_.Close(); }

 private:
  MessageQueue<int> go_on_{1};
};

TEST_F(CoordinatorTest, NobodyWaitsForEverForAnAnswer) {
  StuckStore store;
  const auto coordinator = *Coordinator::Create({.store = store,
                                                 .clock = clock_,
                                                 .files = files_,
                                                 .planner = PlanSmallJob,
                                                 .request_timeout = absl::Milliseconds(10)});
  const absl::Status status = coordinator->SubmitJob(Submission(Spec(1))).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("has not answered in 10ms"));
  store.LetGo();
  coordinator->Stop();
}

}  // namespace
}  // namespace stagecoach
