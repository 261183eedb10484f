#include "coordinator/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/mutex.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/journal/memory_store.h"
#include "coordinator/testing/decide_harness.h"
#include "coordinator/testing/fake_worker.h"
#include "formats/checkpoint.h"
#include "tests/testing/fault_file_system.h"
#include "tests/testing/simulated_clock.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);  // a test that waits so long has failed

// A fake worker with a thread, as a process would be.
class WorkerThread {
 public:
  WorkerThread(Coordinator& coordinator, const std::string& name, uint64_t incarnation, FileSystem& files)
      : coordinator_(coordinator),
        worker_(name, Incarnation(incarnation), &files),
        inbox_(std::make_shared<MessageQueue<v1::CoordinatorMessage>>(1000)),
        thread_(name, [this] { Loop(); }) {
    const absl::Status status = coordinator.ConnectWorker(
        worker_.hello(), worker_.incarnation(),
        [inbox = inbox_](v1::CoordinatorMessage message) { return inbox->Push(std::move(message)); });
    EXPECT_TRUE(status.ok()) << status;
  }
  ~WorkerThread() {
    inbox_->Close();
    thread_.Join();
  }
  // As when its process dies.
  void Die() {
    inbox_->Close();
    EXPECT_TRUE(coordinator_.WorkerLost(worker_.id(), worker_.incarnation(), absl::UnavailableError("died")).ok());
  }
  void CloseInbox() { inbox_->Close(); }

 private:
  void Loop() {
    while (true) {
      const auto message = inbox_->Pop(absl::InfiniteDuration());
      if (!message.ok()) return;
      auto answer = worker_.Answer(*message);
      if (answer.has_value()) coordinator_.Deliver(worker_.id(), *std::move(answer)).IgnoreError();
    }
  }

  Coordinator& coordinator_;
  FakeWorker worker_;
  const std::shared_ptr<MessageQueue<v1::CoordinatorMessage>> inbox_;
  NamedThread thread_;
};

// Collects a job's events and waits for its end.
class EventLog {
 public:
  Follower follower() {
    return [this](const FollowEvent& event) {
      MutexLock lock(mutex_);
      events_.push_back(event);
      changed_.NotifyAll();
    };
  }
  // The state that the job has ended in; UNSPECIFIED: the coordinator ended before.
  v1::JobState WaitForEnd() {
    return WaitFor([](const FollowEvent& event) {
      const auto* status = std::get_if<v1::JobStatus>(&event);
      return std::holds_alternative<absl::Status>(event) || (status != nullptr && HasEnded(status->state()));
    });
  }
  void WaitForStep(uint64_t step) {
    WaitFor([step](const FollowEvent& event) {
      const auto* step_event = std::get_if<v1::StepEvent>(&event);
      return step_event != nullptr && step_event->step() >= step;
    });
  }
  std::vector<FollowEvent> events() const {
    MutexLock lock(mutex_);
    return events_;
  }
  std::vector<uint64_t> steps() const {
    std::vector<uint64_t> steps;
    for (const FollowEvent& event : events()) {
      if (const auto* step = std::get_if<v1::StepEvent>(&event)) steps.push_back(step->step());
    }
    return steps;
  }

 private:
  template <typename Matches>
  v1::JobState WaitFor(Matches matches) {
    const auto deadline = DeadlineIn(kLong);
    MutexLock lock(mutex_);
    while (true) {
      for (const FollowEvent& event : events_) {
        if (!matches(event)) continue;
        const auto* status = std::get_if<v1::JobStatus>(&event);
        return status == nullptr ? v1::JOB_STATE_UNSPECIFIED : status->state();
      }
      if (!changed_.WaitUntil(mutex_, deadline)) {
        ADD_FAILURE() << "no such event";
        return v1::JOB_STATE_UNSPECIFIED;
      }
    }
  }

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<FollowEvent> events_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<PlannedJob> PlanSmallJob(const v1::JobSpec&, const std::vector<WorkerProfile>& workers) {
  return SmallPlan(static_cast<uint32_t>(workers.size()))->planned;
}

// Fails all appends from some entry on.
class FailingStore : public MemoryStore {
 public:
  explicit FailingStore(uint64_t last_good_sequence) : last_good_sequence_(last_good_sequence) {}
  absl::Status Append(const v1::JournalEntry& entry, SyncMode sync) override {
    if (entry.sequence() > last_good_sequence_) return absl::ResourceExhaustedError("the disk is full");
    return MemoryStore::Append(entry, sync);
  }

 private:
  const uint64_t last_good_sequence_;
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

class CoordinatorTest : public testing::Test {
 protected:
  CoordinatorTest() {
    const absl::Status status = WriteFileAtomically(files_, directory_.Path("text.txt"), std::string(16 * 24 + 1, 'x'));
    EXPECT_TRUE(status.ok()) << status;
  }
  std::unique_ptr<Coordinator> Start(Store& store, Planner planner = PlanSmallJob) {
    auto coordinator = Coordinator::Create(
        {.store = store, .clock = clock_, .files = files_, .planner = std::move(planner), .queue_capacity = 1000});
    EXPECT_TRUE(coordinator.ok()) << coordinator.status();
    return *std::move(coordinator);
  }
  void AddWorkers(Coordinator& coordinator, int number) {
    for (int i = 0; i < number; ++i) {
      const std::string name = "w" + std::to_string(i);
      workers_[name] = std::make_unique<WorkerThread>(coordinator, name, ++last_incarnation_, files_);
    }
  }
  v1::JobSpec Spec(uint32_t num_workers, uint64_t steps = 4) {
    v1::JobSpec spec = SmallSpec();
    spec.mutable_training()->set_steps(steps);
    spec.mutable_resources()->set_workers(num_workers);
    spec.mutable_checkpoint()->set_dir(directory_.Path("checkpoints"));
    v1::DataSource& source = *spec.mutable_data()->add_train();
    source.set_path(directory_.Path("text.txt"));
    source.set_format("text");
    return spec;
  }

  TemporaryDirectory directory_;
  FaultFileSystem files_;
  SimulatedClock clock_;
  MemoryStore store_;
  EventLog log_;
  std::map<std::string, std::unique_ptr<WorkerThread>> workers_;
  uint64_t last_incarnation_ = 0;
};

TEST_F(CoordinatorTest, TrainsAJobOnFakeWorkersAndLeavesACheckpoint) {
  const auto coordinator = Start(store_);
  const absl::StatusOr<JobId> job = coordinator->SubmitJob(Spec(3));
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_TRUE(coordinator->Follow(*job, log_.follower()).ok());
  AddWorkers(*coordinator, 3);
  EXPECT_EQ(log_.WaitForEnd(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(log_.steps(), (std::vector<uint64_t>{1, 2, 3, 4}));

  const absl::StatusOr<JobDescription> description = coordinator->DescribeJob(*job);
  ASSERT_TRUE(description.ok());
  EXPECT_EQ(description->status.step(), 4u);
  EXPECT_EQ(description->plan.stages_size(), 3);
  EXPECT_EQ(description->checkpoint_directory, directory_.Path("checkpoints/step-0000000004"));
  const auto manifest = ReadManifest(files_, description->checkpoint_directory);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->digest(), description->digest);
  EXPECT_EQ(manifest->state_digest(), description->state_digest);
  workers_.clear();
}

TEST_F(CoordinatorTest, SyncsEveryEntryButCommitRecords) {
  RecordingStore store;
  const auto coordinator = Start(store);
  const JobId job = *coordinator->SubmitJob(Spec(2));
  ASSERT_TRUE(coordinator->Follow(job, log_.follower()).ok());
  AddWorkers(*coordinator, 2);
  EXPECT_EQ(log_.WaitForEnd(), v1::JOB_STATE_SUCCEEDED);
  for (const auto& [entry, mode] : store.modes()) {
    EXPECT_EQ(mode, entry.has_step_committed() ? SyncMode::kBuffered : SyncMode::kSynced) << entry.ShortDebugString();
  }
  coordinator->Stop();
  workers_.clear();
}

TEST_F(CoordinatorTest, AnswersForUnknownAndDoubleJobs) {
  const auto coordinator = Start(store_);
  const JobId job = *coordinator->SubmitJob(Spec(1));
  EXPECT_EQ(coordinator->SubmitJob(Spec(1)).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(coordinator->GetJob(JobId("no")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(coordinator->CancelJob(JobId("no")).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(coordinator->Follow(JobId("no"), log_.follower()).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(coordinator->GetJob(job)->state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(coordinator->ConnectWorker(v1::Hello(), Incarnation(1), nullptr).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(CoordinatorTest, ACancelledRunLeavesACheckpoint) {
  const auto coordinator = Start(store_);
  const JobId job = *coordinator->SubmitJob(Spec(2, /*steps=*/1'000'000'000));
  ASSERT_TRUE(coordinator->Follow(job, log_.follower()).ok());
  AddWorkers(*coordinator, 2);
  log_.WaitForStep(1);
  EXPECT_TRUE(coordinator->CancelJob(job).ok());
  EXPECT_EQ(log_.WaitForEnd(), v1::JOB_STATE_CANCELLED);
  EXPECT_FALSE(coordinator->DescribeJob(job)->digest.empty());
  EXPECT_EQ(coordinator->CancelJob(job).code(), absl::StatusCode::kFailedPrecondition);
  workers_.clear();
}

TEST_F(CoordinatorTest, ALostWorkerFailsTheJobAndTheOthersTakeTheNext) {
  const auto coordinator = Start(store_);
  const JobId job = *coordinator->SubmitJob(Spec(3, /*steps=*/1'000'000'000));
  ASSERT_TRUE(coordinator->Follow(job, log_.follower()).ok());
  AddWorkers(*coordinator, 3);
  log_.WaitForStep(2);
  workers_["w1"]->Die();
  EXPECT_EQ(log_.WaitForEnd(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(coordinator->GetJob(job)->reason(), kReasonWorkerLost);

  EventLog second;
  const JobId next = *coordinator->SubmitJob(Spec(2));
  ASSERT_TRUE(coordinator->Follow(next, second.follower()).ok());
  EXPECT_EQ(second.WaitForEnd(), v1::JOB_STATE_SUCCEEDED);
  workers_.clear();
}

TEST_F(CoordinatorTest, AWorkerWhoseSinkFailsIsLost) {
  const auto coordinator = Start(store_);
  const JobId job = *coordinator->SubmitJob(Spec(2, /*steps=*/1'000'000'000));
  ASSERT_TRUE(coordinator->Follow(job, log_.follower()).ok());
  AddWorkers(*coordinator, 2);
  log_.WaitForStep(1);
  workers_["w0"]->CloseInbox();
  EXPECT_EQ(log_.WaitForEnd(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(coordinator->GetJob(job)->reason(), kReasonWorkerLost);
  workers_.clear();
}

TEST_F(CoordinatorTest, BadDataAndAFailedPlanEndTheJobWithTheirReason) {
  const auto coordinator = Start(store_, [](const auto&, const auto&) -> absl::StatusOr<PlannedJob> {
    return absl::InvalidArgumentError("more stages than blocks");
  });
  AddWorkers(*coordinator, 1);
  v1::JobSpec spec = Spec(1);
  spec.mutable_data()->mutable_train(0)->set_path(directory_.Path("nowhere.txt"));
  const JobId no_data = *coordinator->SubmitJob(spec);
  ASSERT_TRUE(coordinator->Follow(no_data, log_.follower()).ok());
  EXPECT_EQ(log_.WaitForEnd(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(coordinator->GetJob(no_data)->reason(), kReasonInvalidData);

  EventLog second;
  const JobId no_plan = *coordinator->SubmitJob(Spec(1));
  ASSERT_TRUE(coordinator->Follow(no_plan, second.follower()).ok());
  EXPECT_EQ(second.WaitForEnd(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(coordinator->GetJob(no_plan)->reason(), kReasonPlanningFailed);
  EXPECT_EQ(coordinator->GetJob(no_plan)->message(), "more stages than blocks");
  workers_.clear();
}

TEST_F(CoordinatorTest, AFullDiskFailsTheCheckpointAndTheJob) {
  files_.Add({.operation = FileOperation::kCommit,
              .path_part = "manifest.json",
              .after = 0,
              .status = absl::ResourceExhaustedError("the disk is full")});
  const auto coordinator = Start(store_);
  const JobId job = *coordinator->SubmitJob(Spec(1));
  ASSERT_TRUE(coordinator->Follow(job, log_.follower()).ok());
  AddWorkers(*coordinator, 1);
  EXPECT_EQ(log_.WaitForEnd(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(coordinator->GetJob(job)->reason(), kReasonCheckpointFailed);
  workers_.clear();
}

TEST_F(CoordinatorTest, ALateFollowerGetsTheCurrentStatus) {
  const auto coordinator = Start(store_);
  const JobId job = *coordinator->SubmitJob(Spec(1));
  ASSERT_TRUE(coordinator->Follow(job, log_.follower()).ok());
  AddWorkers(*coordinator, 1);
  log_.WaitForEnd();
  EventLog late;
  ASSERT_TRUE(coordinator->Follow(job, late.follower()).ok());
  ASSERT_EQ(late.events().size(), 1u);
  EXPECT_EQ(std::get<v1::JobStatus>(late.events()[0]).state(), v1::JOB_STATE_SUCCEEDED);
  workers_.clear();
}

TEST_F(CoordinatorTest, AFollowerCannotWaitForTheCoordinatorItself) {
  const auto coordinator = Start(store_);
  const JobId job = *coordinator->SubmitJob(Spec(1));
  absl::Status inside;
  ASSERT_TRUE(coordinator->Follow(job, [&](const FollowEvent&) { inside = coordinator->CancelJob(job); }).ok());
  coordinator->Stop();
  EXPECT_EQ(inside.code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(CoordinatorTest, StopTellsFollowersAndLaterCallers) {
  const auto coordinator = Start(store_);
  const JobId job = *coordinator->SubmitJob(Spec(1));
  ASSERT_TRUE(coordinator->Follow(job, log_.follower()).ok());
  coordinator->Stop();
  ASSERT_EQ(log_.events().size(), 2u);
  EXPECT_EQ(std::get<absl::Status>(log_.events()[1]).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(coordinator->SubmitJob(Spec(1)).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(coordinator->GetJob(job).status().code(), absl::StatusCode::kUnavailable);
  coordinator->Stop();
}

TEST_F(CoordinatorTest, AJournalThatCannotBeWrittenStopsEverything) {
  FailingStore store(/*last_good_sequence=*/6);
  const auto coordinator = Start(store);
  const JobId job = *coordinator->SubmitJob(Spec(1, /*steps=*/1'000'000));
  ASSERT_TRUE(coordinator->Follow(job, log_.follower()).ok());
  AddWorkers(*coordinator, 1);
  EXPECT_EQ(log_.WaitForEnd(), v1::JOB_STATE_UNSPECIFIED);
  EXPECT_THAT(std::string(coordinator->GetJob(job).status().message()), testing::HasSubstr("the disk is full"));
  EXPECT_EQ(coordinator->SubmitJob(Spec(1)).status().code(), absl::StatusCode::kUnavailable);
  workers_.clear();
}

TEST_F(CoordinatorTest, ARestartTakesTheNextTermAndKnowsTheJobs) {
  const auto journal = std::make_shared<MemoryJournal>();
  JobId ended, queued;
  JobDescription before;
  {
    MemoryStore store(journal);
    const auto coordinator = Start(store);
    ended = *coordinator->SubmitJob(Spec(1));
    ASSERT_TRUE(coordinator->Follow(ended, log_.follower()).ok());
    AddWorkers(*coordinator, 1);
    EXPECT_EQ(log_.WaitForEnd(), v1::JOB_STATE_SUCCEEDED);
    before = *coordinator->DescribeJob(ended);
    v1::JobSpec spec = Spec(2);
    spec.set_name("queued");
    queued = *coordinator->SubmitJob(spec);
    workers_.clear();
  }
  MemoryStore store(journal);
  const auto coordinator = Start(store);
  const JobDescription after = *coordinator->DescribeJob(ended);
  EXPECT_EQ(after.status.SerializeAsString(), before.status.SerializeAsString());
  EXPECT_EQ(after.state_digest, before.state_digest);
  EXPECT_EQ(after.plan.SerializeAsString(), before.plan.SerializeAsString());

  EventLog second;
  ASSERT_TRUE(coordinator->Follow(queued, second.follower()).ok());
  AddWorkers(*coordinator, 2);
  EXPECT_EQ(second.WaitForEnd(), v1::JOB_STATE_SUCCEEDED);
  const auto manifest = ReadManifest(files_, coordinator->DescribeJob(queued)->checkpoint_directory);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->coordinator_term(), 2u);
  workers_.clear();
}

TEST_F(CoordinatorTest, AJobThatRanWhenTheCoordinatorEndedIsFailed) {
  const auto journal = std::make_shared<MemoryJournal>();
  JobId job;
  {
    MemoryStore store(journal);
    const auto coordinator = Start(store);
    job = *coordinator->SubmitJob(Spec(1, /*steps=*/1'000'000'000));
    ASSERT_TRUE(coordinator->Follow(job, log_.follower()).ok());
    AddWorkers(*coordinator, 1);
    log_.WaitForStep(1);
    coordinator->Stop();
    workers_.clear();
  }
  MemoryStore store(journal);
  const auto coordinator = Start(store);
  EXPECT_EQ(coordinator->GetJob(job)->state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(coordinator->GetJob(job)->reason(), kReasonCoordinatorRestarted);
  EXPECT_GE(coordinator->GetJob(job)->step(), 1u);
}

TEST_F(CoordinatorTest, TwoCoordinatorsCannotHaveOneJournal) {
  const auto journal = std::make_shared<MemoryJournal>();
  MemoryStore first(journal), second(journal);
  const auto coordinator = Start(first);
  EXPECT_EQ(
      Coordinator::Create({.store = second, .clock = clock_, .files = files_, .planner = PlanSmallJob}).status().code(),
      absl::StatusCode::kFailedPrecondition);
}

TEST_F(CoordinatorTest, AJournalThatContradictsItselfIsRefused) {
  const auto journal = std::make_shared<MemoryJournal>();
  {
    MemoryStore store(journal);
    ASSERT_TRUE(store.Lock().ok());
    v1::JournalEntry entry;
    entry.set_sequence(1);
    entry.mutable_step_committed()->set_job("never submitted");
    ASSERT_TRUE(store.Append(entry, SyncMode::kSynced).ok());
  }
  MemoryStore store(journal);
  const auto coordinator =
      Coordinator::Create({.store = store, .clock = clock_, .files = files_, .planner = PlanSmallJob});
  EXPECT_EQ(coordinator.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(coordinator.status().message()), testing::HasSubstr("never submitted"));
}

}  // namespace
}  // namespace stagecoach
