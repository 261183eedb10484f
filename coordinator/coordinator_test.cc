#include "coordinator/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/message_queue.h"
#include "common/mutex.h"
#include "common/protocol_version.h"
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

// Welcome may come before ConnectWorker has returned.
class KnownLater {
 public:
  void Set(SessionId session) {
    MutexLock lock(mutex_);
    session_ = session;
    is_set_.NotifyAll();
  }
  SessionId Wait() {
    MutexLock lock(mutex_);
    while (!session_.has_value()) is_set_.Wait(mutex_);
    return *session_;
  }

 private:
  Mutex mutex_;
  CondVar is_set_;
  std::optional<SessionId> session_ ABSL_GUARDED_BY(mutex_);
};

// A fake worker with a thread for each session, as a process would have.
class WorkerThread {
 public:
  WorkerThread(const std::string& name, uint64_t incarnation, FileSystem& files)
      : worker_(name, Incarnation(incarnation), &files) {}
  ~WorkerThread() { HangUp(); }

  // Again after a session has ended: with what it holds.
  void Dial(Coordinator& coordinator) {
    HangUp();
    inbox_ = std::make_shared<MessageQueue<v1::CoordinatorMessage>>(1000);
    session_ = std::make_shared<KnownLater>();
    coordinator_ = &coordinator;
    const v1::Hello hello = worker_.hello();
    thread_ = NamedThread(hello.worker(), [this] { Loop(); });
    const absl::StatusOr<SessionId> session = coordinator.ConnectWorker(
        hello, worker_.incarnation(),
        {.send = [inbox = inbox_](v1::CoordinatorMessage message) { return inbox->Push(std::move(message)); },
         .end = [inbox = inbox_](const absl::Status&) { inbox->Close(); }});
    EXPECT_TRUE(session.ok()) << session.status();
    session_->Set(*session);
  }
  void HangUp() {
    if (inbox_ != nullptr) inbox_->Close();
    thread_.Join();
  }
  // As when its process dies.
  void Die() {
    inbox_->Close();
    EXPECT_TRUE(coordinator_->EndSession(session_->Wait(), absl::UnavailableError("died")).ok());
  }
  void CloseInbox() { inbox_->Close(); }
  void Say(v1::WorkerMessage message) {
    message.mutable_fence()->set_incarnation(worker_.incarnation().value());
    message.mutable_fence()->set_coordinator_term(coordinator_->term().value());
    EXPECT_TRUE(coordinator_->Deliver(session_->Wait(), std::move(message)).ok());
  }

 private:
  void Loop() {
    while (true) {
      const auto message = inbox_->Pop(absl::InfiniteDuration());
      if (!message.ok()) return;
      auto answer = worker_.Answer(*message);
      if (answer.has_value()) coordinator_->Deliver(session_->Wait(), *std::move(answer)).IgnoreError();
    }
  }

  FakeWorker worker_;
  Coordinator* coordinator_ = nullptr;
  std::shared_ptr<MessageQueue<v1::CoordinatorMessage>> inbox_;
  std::shared_ptr<KnownLater> session_;
  NamedThread thread_;
};

// Collects a job's events and waits for its end.
class JobWatch {
 public:
  JobFollower follower() {
    return {.on_event =
                [this](const v1::JobEvent& event) {
                  MutexLock lock(mutex_);
                  events_.push_back(event);
                  changed_.NotifyAll();
                  return absl::OkStatus();
                },
            .on_end =
                [this](const absl::Status& status) {
                  MutexLock lock(mutex_);
                  end_ = status;
                  changed_.NotifyAll();
                }};
  }
  // The state that the job has ended in; UNSPECIFIED: the coordinator ended before.
  v1::JobState WaitForEnd() {
    const auto deadline = DeadlineIn(kLong);
    MutexLock lock(mutex_);
    while (!end_.has_value()) {
      if (changed_.WaitUntil(mutex_, deadline)) continue;
      ADD_FAILURE() << "no end";
      return v1::JOB_STATE_UNSPECIFIED;
    }
    return end_->ok() ? events_.back().status().state() : v1::JOB_STATE_UNSPECIFIED;
  }
  void WaitForStep(uint64_t step) {
    const auto deadline = DeadlineIn(kLong);
    MutexLock lock(mutex_);
    while (true) {
      for (const v1::JobEvent& event : events_) {
        if (event.has_step() && event.step().step() >= step) return;
      }
      if (!changed_.WaitUntil(mutex_, deadline)) {
        ADD_FAILURE() << "no step " << step;
        return;
      }
    }
  }
  std::vector<v1::JobEvent> events() const {
    MutexLock lock(mutex_);
    return events_;
  }
  std::vector<uint64_t> steps() const {
    std::vector<uint64_t> steps;
    for (const v1::JobEvent& event : events()) {
      if (event.has_step()) steps.push_back(event.step().step());
    }
    return steps;
  }
  std::optional<absl::Status> end() const {
    MutexLock lock(mutex_);
    return end_;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<v1::JobEvent> events_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

v1::FollowJobRequest All(const JobId& job, uint64_t after_sequence = 0) {
  v1::FollowJobRequest request;
  request.set_job(job.value());
  request.set_after_sequence(after_sequence);
  return request;
}

v1::SubmitJobRequest Submission(const v1::JobSpec& spec) {
  v1::SubmitJobRequest request;
  *request.mutable_spec() = spec;
  return request;
}

absl::StatusOr<PlannedJob> PlanSmallJob(const v1::JobSpec&, const std::vector<WorkerProfile>& workers) {
  return SmallPlan(static_cast<uint32_t>(workers.size()))->planned;
}

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

class CoordinatorTest : public testing::Test {
 protected:
  CoordinatorTest() {
    const absl::Status status = WriteFileAtomically(files_, directory_.Path("text.txt"), std::string(16 * 24 + 1, 'x'));
    EXPECT_TRUE(status.ok()) << status;
  }
  std::unique_ptr<Coordinator> Start(Store& store, Planner planner = PlanSmallJob) {
    auto coordinator = Coordinator::Create({.store = store,
                                            .clock = clock_,
                                            .files = files_,
                                            .planner = std::move(planner),
                                            .wall_clock = [] { return absl::FromUnixSeconds(1'000'000); },
                                            .fleet = {.suspect_grace = absl::ZeroDuration()},
                                            .compaction = {.least_dropped = 100},
                                            .queue_capacity = 1000});
    EXPECT_TRUE(coordinator.ok()) << coordinator.status();
    return *std::move(coordinator);
  }
  void AddWorkers(Coordinator& coordinator, int number) {
    for (int i = 0; i < number; ++i) {
      const std::string name = "w" + std::to_string(i);
      workers_[name] = std::make_unique<WorkerThread>(name, ++last_incarnation_, files_);
      workers_[name]->Dial(coordinator);
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
    // For planning again: the layers that the cut is about.
    spec.mutable_model()->set_architecture("gpt2");
    v1::ModelConfig& config = *spec.mutable_model()->mutable_config();
    config.set_num_hidden_layers(4);
    config.set_hidden_size(8);
    config.set_num_attention_heads(1);
    config.set_vocab_size(256);
    config.set_max_position_embeddings(16);
    return spec;
  }

  TemporaryDirectory directory_;
  FaultFileSystem files_;
  SimulatedClock clock_;
  MemoryStore store_;
  JobWatch log_;
  std::map<std::string, std::unique_ptr<WorkerThread>> workers_;
  uint64_t last_incarnation_ = 0;
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

TEST_F(CoordinatorTest, ALateFollowerGetsWhatWasAndTheEnd) {
  const auto coordinator = Start(store_);
  const JobId job = *coordinator->SubmitJob(Submission(Spec(1)));
  ASSERT_TRUE(coordinator->FollowJob(All(job), log_.follower()).ok());
  AddWorkers(*coordinator, 1);
  log_.WaitForEnd();
  JobWatch late;
  ASSERT_TRUE(coordinator->FollowJob(All(job), late.follower()).ok());
  EXPECT_EQ(late.WaitForEnd(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(late.steps(), log_.steps());
  workers_.clear();
}

TEST_F(CoordinatorTest, AFollowerCannotWaitForTheCoordinatorItself) {
  const auto coordinator = Start(store_);
  const JobId job = *coordinator->SubmitJob(Submission(Spec(1)));
  absl::Status inside;
  const auto on_event = [&](const v1::JobEvent&) {
    inside = coordinator->CancelJob(job);
    return absl::OkStatus();
  };
  ASSERT_TRUE(coordinator->FollowJob(All(job), {.on_event = on_event, .on_end = [](const absl::Status&) {}}).ok());
  coordinator->Stop();
  EXPECT_EQ(inside.code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(CoordinatorTest, StopTellsFollowersAndLaterCallers) {
  const auto coordinator = Start(store_);
  const JobId job = *coordinator->SubmitJob(Submission(Spec(1)));
  ASSERT_TRUE(coordinator->FollowJob(All(job), log_.follower()).ok());
  coordinator->Stop();
  EXPECT_EQ(log_.end()->code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(coordinator->SubmitJob(Submission(Spec(1))).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(coordinator->DescribeJob(job).status().code(), absl::StatusCode::kUnavailable);
  coordinator->Stop();
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

TEST_F(CoordinatorTest, ARestartTakesTheNextTermAndKnowsTheJobs) {
  const auto journal = std::make_shared<MemoryJournal>();
  JobId ended, queued;
  v1::Job before;
  {
    MemoryStore store(journal);
    const auto coordinator = Start(store);
    ended = *coordinator->SubmitJob(Submission(Spec(1)));
    ASSERT_TRUE(coordinator->FollowJob(All(ended), log_.follower()).ok());
    AddWorkers(*coordinator, 1);
    EXPECT_EQ(log_.WaitForEnd(), v1::JOB_STATE_SUCCEEDED);
    before = *coordinator->DescribeJob(ended);
    v1::JobSpec spec = Spec(2);
    spec.set_name("queued");
    queued = *coordinator->SubmitJob(Submission(spec));
    workers_.clear();
  }
  MemoryStore store(journal);
  const auto coordinator = Start(store);
  const v1::Job after = *coordinator->DescribeJob(ended);
  EXPECT_EQ(after.DebugString(), before.DebugString());

  JobWatch second;
  ASSERT_TRUE(coordinator->FollowJob(All(queued), second.follower()).ok());
  AddWorkers(*coordinator, 2);
  EXPECT_EQ(second.WaitForEnd(), v1::JOB_STATE_SUCCEEDED);
  const auto manifest = ReadManifest(files_, coordinator->DescribeJob(queued)->checkpoint_directory());
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->coordinator_term(), 2u);
  workers_.clear();
}

TEST_F(CoordinatorTest, ARestartedCoordinatorGoesOnWithTheSameWorkers) {
  constexpr uint64_t kSteps = 300;
  std::string digest;
  {
    const auto coordinator = Start(store_);
    const JobId job = *coordinator->SubmitJob(Submission(Spec(2, kSteps)));
    ASSERT_TRUE(coordinator->FollowJob(All(job), log_.follower()).ok());
    AddWorkers(*coordinator, 2);
    EXPECT_EQ(log_.WaitForEnd(), v1::JOB_STATE_SUCCEEDED);
    digest = coordinator->DescribeJob(job)->state_digest();
    workers_.clear();
  }
  const auto journal = std::make_shared<MemoryJournal>();
  JobId job;
  std::vector<uint64_t> steps;
  uint64_t token = 0;
  for (int life = 0; life < 4; ++life) {
    MemoryStore store(journal);
    const auto coordinator = Start(store);
    if (life == 0) {
      job = *coordinator->SubmitJob(Submission(Spec(2, kSteps)));
      AddWorkers(*coordinator, 2);
    } else {
      for (auto& [name, worker] : workers_) worker->Dial(*coordinator);
    }
    JobWatch watch;
    ASSERT_TRUE(coordinator->FollowJob(All(job, token), watch.follower()).ok());
    if (life < 3) {
      watch.WaitForStep(life * 20 + 5);
    } else {
      EXPECT_EQ(watch.WaitForEnd(), v1::JOB_STATE_SUCCEEDED);
      EXPECT_EQ(coordinator->DescribeJob(job)->recoveries(), 3u);
      EXPECT_EQ(coordinator->DescribeJob(job)->state_digest(), digest);
    }
    coordinator->Stop();
    for (auto& [name, worker] : workers_) worker->HangUp();
    for (const uint64_t step : watch.steps()) steps.push_back(step);
    token = watch.events().back().sequence();
  }
  std::vector<uint64_t> expected(kSteps);
  std::iota(expected.begin(), expected.end(), 1);
  EXPECT_EQ(steps, expected);
  workers_.clear();
}

TEST_F(CoordinatorTest, AJobDoesNotGoOnWithOtherData) {
  const auto journal = std::make_shared<MemoryJournal>();
  JobId job;
  {
    MemoryStore store(journal);
    const auto coordinator = Start(store);
    job = *coordinator->SubmitJob(Submission(Spec(2, /*steps=*/1'000'000'000)));
    AddWorkers(*coordinator, 2);
    JobWatch watch;
    ASSERT_TRUE(coordinator->FollowJob(All(job), watch.follower()).ok());
    watch.WaitForStep(1);
    coordinator->Stop();
    for (auto& [name, worker] : workers_) worker->HangUp();
  }
  ASSERT_TRUE(WriteFileAtomically(files_, directory_.Path("text.txt"), std::string(16 * 24, 'x') + "y").ok());
  MemoryStore store(journal);
  const auto coordinator = Start(store);
  for (auto& [name, worker] : workers_) worker->Dial(*coordinator);
  ASSERT_TRUE(coordinator->FollowJob(All(job), log_.follower()).ok());
  EXPECT_EQ(log_.WaitForEnd(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(coordinator->DescribeJob(job)->status().reason(), kReasonDataChanged);
  workers_.clear();
}

TEST_F(CoordinatorTest, EndedJobsAreForgottenWithTheirEventsLinesAndEntries) {
  const auto journal = std::make_shared<MemoryJournal>();
  const auto start = [&](Store& store) {
    return *Coordinator::Create({.store = store,
                                 .clock = clock_,
                                 .files = files_,
                                 .planner = PlanSmallJob,
                                 .fleet = {.keep_jobs = 2},
                                 .compaction = {.least_dropped = 1}});
  };
  uint64_t token = 0;
  {
    MemoryStore store(journal);
    const auto coordinator = start(store);
    for (const char* name : {"a", "b", "c"}) {
      v1::JobSpec spec = Spec(1);
      spec.set_name(name);
      const JobId job = *coordinator->SubmitJob(Submission(spec));
      JobWatch watch;
      ASSERT_TRUE(coordinator->FollowJob(All(job), watch.follower()).ok());
      ASSERT_TRUE(coordinator->CancelJob(job).ok());
      if (token == 0) {
        watch.WaitForEnd();
        token = watch.events().back().sequence();
      }
    }
    for (const absl::Status& status :
         {coordinator->DescribeJob(JobId("a")).status(), coordinator->CancelJob(JobId("a")),
          coordinator->FollowJob(All(JobId("a"), token), log_.follower()).status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
      EXPECT_THAT(std::string(status.message()),
                  testing::HasSubstr("has been forgotten: the 2 newest jobs that have ended are kept"));
    }
    // The name and the number are free again; a token of the old one is not one of the new one's.
    v1::JobSpec spec = Spec(1);
    spec.set_name("a");
    EXPECT_EQ(*coordinator->SubmitJob(Submission(spec)), JobId("a"));
    EXPECT_EQ(coordinator->FollowJob(All(JobId("a"), token), log_.follower()).status().code(),
              absl::StatusCode::kNotFound);
  }
  MemoryStore store(journal);
  const auto coordinator = start(store);
  EXPECT_EQ(coordinator->DescribeJob(JobId("a"))->status().state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(coordinator->ListJobs()->jobs_size(), 3);
  EXPECT_TRUE(store
                  .ReadAll([&](const v1::JournalEntry& entry) {
                    EXPECT_TRUE(entry.sequence() > token || entry.has_coordinator_started()) << entry.DebugString();
                    return absl::OkStatus();
                  })
                  .ok());
}

TEST_F(CoordinatorTest, ALongJournalIsMadeSmallerAtStart) {
  const auto journal = std::make_shared<MemoryJournal>();
  const auto num_entries = [&] {
    int number = 0;
    EXPECT_TRUE(MemoryStore(journal)
                    .ReadAll([&](const v1::JournalEntry&) {
                      ++number;
                      return absl::OkStatus();
                    })
                    .ok());
    return number;
  };
  JobId job;
  v1::Job before;
  {
    MemoryStore store(journal);
    const auto coordinator = Start(store);
    job = *coordinator->SubmitJob(Submission(Spec(1, 300)));
    ASSERT_TRUE(coordinator->FollowJob(All(job), log_.follower()).ok());
    AddWorkers(*coordinator, 1);
    EXPECT_EQ(log_.WaitForEnd(), v1::JOB_STATE_SUCCEEDED);
    before = *coordinator->DescribeJob(job);
    workers_.clear();
  }
  EXPECT_GT(num_entries(), 300);
  for (int i = 0; i < 2; ++i) {
    MemoryStore store(journal);
    const auto coordinator = Start(store);
    EXPECT_LT(num_entries(), 100);
    EXPECT_EQ(coordinator->DescribeJob(job)->DebugString(), before.DebugString());
  }
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

TEST_F(CoordinatorTest, LinesOfMembersReachThoseWhoFollowTheLog) {
  const auto coordinator = Start(store_);
  const JobId job = *coordinator->SubmitJob(Submission(Spec(1, /*steps=*/1'000'000'000)));
  ASSERT_TRUE(coordinator->FollowJob(All(job), log_.follower()).ok());
  AddWorkers(*coordinator, 1);
  log_.WaitForStep(1);
  MessageQueue<std::string> lines(10);
  v1::FollowLogsRequest request;
  request.set_job(job.value());
  request.set_follow(true);
  const auto follower = LogFollower{
      .on_line = [&](const v1::LogRecord& record) { return lines.Push(record.worker() + ": " + record.line().text()); },
      .on_end = [&](const absl::Status&) { lines.Close(); }};
  ASSERT_TRUE(coordinator->FollowLogs(request, follower).ok());
  v1::WorkerMessage message;
  message.mutable_fence()->set_job(job.value());
  message.mutable_log_lines()->add_lines()->set_text("hello");
  workers_["w0"]->Say(message);
  EXPECT_EQ(*lines.Pop(kLong), "w0: hello");
  ASSERT_TRUE(coordinator->CancelJob(job).ok());
  EXPECT_TRUE(absl::IsUnavailable(lines.Pop(kLong).status()));  // ended
  workers_.clear();
}

TEST_F(CoordinatorTest, WhoUnfollowsHearsNothingMore) {
  const auto coordinator = Start(store_);
  const JobId job = *coordinator->SubmitJob(Submission(Spec(1)));
  const FollowerId follower = *coordinator->FollowJob(All(job), log_.follower());
  coordinator->Unfollow(follower);
  ASSERT_TRUE(coordinator->DescribeJob(job).ok());  // it was handled
  const size_t heard = log_.events().size();
  ASSERT_TRUE(coordinator->CancelJob(job).ok());
  coordinator->Stop();
  EXPECT_EQ(log_.events().size(), heard);
  EXPECT_FALSE(log_.end().has_value());
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
