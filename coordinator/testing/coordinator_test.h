#ifndef STAGECOACH_COORDINATOR_TESTING_COORDINATOR_TEST_H_
#define STAGECOACH_COORDINATOR_TESTING_COORDINATOR_TEST_H_

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/message_queue.h"
#include "common/mutex.h"
#include "common/named_thread.h"
#include "coordinator/coordinator.h"
#include "coordinator/journal/memory_store.h"
#include "coordinator/testing/decide_harness.h"
#include "coordinator/testing/fake_worker.h"
#include "tests/testing/fault_file_system.h"
#include "tests/testing/simulated_clock.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {

inline constexpr absl::Duration kLong = absl::Seconds(60);  // a test that waits so long has failed

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

inline v1::FollowJobRequest All(const JobId& job, uint64_t after_sequence = 0) {
  v1::FollowJobRequest request;
  request.set_job(job.value());
  request.set_after_sequence(after_sequence);
  return request;
}

inline v1::SubmitJobRequest Submission(const v1::JobSpec& spec) {
  v1::SubmitJobRequest request;
  *request.mutable_spec() = spec;
  return request;
}

inline absl::StatusOr<PlannedJob> PlanSmallJob(const v1::JobSpec&, const std::vector<WorkerProfile>& workers) {
  return SmallPlan(static_cast<uint32_t>(workers.size()))->planned;
}

// A coordinator with threads for workers.
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

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_TESTING_COORDINATOR_TEST_H_
