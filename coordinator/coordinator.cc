#include "coordinator/coordinator.h"

#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "coordinator/decide.h"

namespace stagecoach {
namespace {

// What one thread waits for and another sets. Thread-safe.
template <typename T>
class Answer {
 public:
  void Set(absl::StatusOr<T> value) {
    MutexLock lock(mutex_);
    value_ = std::move(value);
    is_set_.NotifyAll();
  }
  absl::StatusOr<T> Wait() {
    MutexLock lock(mutex_);
    while (!value_.has_value()) is_set_.Wait(mutex_);
    return *std::move(value_);
  }

 private:
  Mutex mutex_;
  CondVar is_set_;
  std::optional<absl::StatusOr<T>> value_ ABSL_GUARDED_BY(mutex_);
};

absl::Status Unanswered() { return absl::UnavailableError("the coordinator has not answered"); }

JobDescription Describe(const JobRecord& job) {
  JobDescription description;
  description.status = StatusOf(job);
  description.spec = *job.history.spec;
  if (job.history.plan != nullptr) description.plan = *job.history.plan;
  if (!job.history.checkpoints.empty()) {
    const v1::CheckpointCompleted& newest = job.history.checkpoints.back();
    description.checkpoint_directory = newest.directory();
    description.digest = newest.digest();
    description.state_digest = newest.state_digest();
  }
  return description;
}

}  // namespace

Coordinator::Coordinator(Options options)
    : options_(std::move(options)),
      queue_(options_.queue_capacity),
      last_answer_(Unanswered()),
      planning_thread_("planning"),
      file_thread_("files"),
      runner_({.state = state_,
               .store = options_.store,
               .files = options_.files,
               .planner = options_.planner,
               .planning_thread = planning_thread_,
               .file_thread = file_thread_,
               .post = [this](Input input) { return Post(std::move(input)); },
               .post_result = [this](Input input) { PostResult(input); },
               .answer =
                   [this](uint64_t request, absl::StatusOr<JobId> answer) {
                     if (request == last_request_) last_answer_ = std::move(answer);
                   }}) {}

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Create(Options options) {
  STAGECOACH_RETURN_IF_ERROR(options.store.Lock());
  std::unique_ptr<Coordinator> coordinator(new Coordinator(std::move(options)));
  STAGECOACH_RETURN_IF_ERROR(coordinator->Replay());
  Coordinator* const raw = coordinator.get();
  coordinator->thread_ = NamedThread("coordinator", [raw] { raw->Loop(); });
  return coordinator;
}

absl::Status Coordinator::Replay() {
  STAGECOACH_RETURN_IF_ERROR(options_.store.ReadAll([this](const v1::JournalEntry& entry) {
    if (absl::Status status = state_.Check(entry); !status.ok()) {
      return absl::DataLossError(absl::StrCat("the journal contradicts itself: ", status.message()));
    }
    state_.Apply(entry);
    return absl::OkStatus();
  }));
  v1::JournalEntry started;
  started.mutable_coordinator_started();
  STAGECOACH_RETURN_IF_ERROR(runner_.Append(started, CoordinatorTerm(state_.term().value() + 1)));
  Handle(Restarted{});
  return halted_;
}

void Coordinator::Loop() {
  loop_id_ = std::this_thread::get_id();
  // Also while messages never cease: deadlines of one job must not wait for the silence of another.
  auto next_tick = DeadlineIn(options_.tick_interval);
  while (true) {
    const absl::StatusOr<std::function<void()>> next = queue_.Pop(options_.tick_interval);
    if (next.ok()) {
      (*next)();
    } else if (next.status().code() != absl::StatusCode::kDeadlineExceeded) {
      break;
    }
    if (std::chrono::steady_clock::now() < next_tick) continue;
    Handle(Tick{});
    next_tick = DeadlineIn(options_.tick_interval);
  }
  runner_.EndFollowers(absl::UnavailableError("the coordinator was stopped"));
}

void Coordinator::Handle(const Input& input) {
  if (!halted_.ok()) return;
  Decision decision = Decide(options_.clock.Now(), state_, input);
  spdlog::debug("{}", decision.reason);
  halted_ = runner_.Run(std::move(decision));
  while (halted_.ok() && runner_.TakeTickRequest()) {
    halted_ = runner_.Run(Decide(options_.clock.Now(), state_, Tick{}));
  }
  if (halted_.ok()) return;
  spdlog::error("the coordinator has halted: {}", halted_.ToString());
  runner_.EndFollowers(absl::UnavailableError(halted_.message()));
}

absl::Status Coordinator::Post(Input input) {
  return queue_.Push([this, input = std::move(input)] { Handle(input); });
}

void Coordinator::PostResult(const Input& input) {
  // The result of an effect must not be lost, or its job would wait for ever.
  while (Post(input).code() == absl::StatusCode::kResourceExhausted) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

absl::Status Coordinator::ConnectWorker(const v1::Hello& hello, Incarnation incarnation, WorkerSink sink) {
  if (hello.worker().empty()) return absl::InvalidArgumentError("a worker has no name");
  const WorkerId worker(hello.worker());
  return queue_.Push([this, worker, incarnation, hello, sink = std::move(sink)] {
    const auto found = state_.workers().find(worker);
    // The same session twice: the first one's sink stays.
    if (found != state_.workers().end() && found->second.incarnation == incarnation) return;
    runner_.SetSink(worker, incarnation, sink);
    Handle(WorkerConnected{worker, incarnation, hello});
  });
}

absl::Status Coordinator::Deliver(const WorkerId& worker, v1::WorkerMessage message) {
  return Post(WorkerSaid{worker, std::move(message)});
}

absl::Status Coordinator::WorkerLost(const WorkerId& worker, Incarnation incarnation, const absl::Status& why) {
  return Post(stagecoach::WorkerLost{worker, incarnation, why});
}

template <typename T>
absl::StatusOr<T> Coordinator::Ask(std::function<absl::StatusOr<T>()> ask) {
  if (loop_id_.load() == std::this_thread::get_id()) {
    return absl::FailedPreconditionError("a sink or follower asked the coordinator to wait for itself");
  }
  const auto answer = std::make_shared<Answer<T>>();
  STAGECOACH_RETURN_IF_ERROR(queue_.Push([this, answer, ask = std::move(ask)] {
    answer->Set(halted_.ok() ? ask() : absl::UnavailableError(halted_.message()));
  }));
  return answer->Wait();
}

absl::StatusOr<JobId> Coordinator::Request(std::function<Input(uint64_t)> make_input) {
  return Ask<JobId>([this, make_input = std::move(make_input)]() -> absl::StatusOr<JobId> {
    last_answer_ = Unanswered();
    Handle(make_input(++last_request_));
    return halted_.ok() ? last_answer_ : absl::UnavailableError(halted_.message());
  });
}

absl::StatusOr<JobId> Coordinator::SubmitJob(const v1::JobSpec& spec) {
  return Request([spec](uint64_t request) { return JobRequested{request, spec}; });
}

absl::Status Coordinator::CancelJob(const JobId& job) {
  return Request([job](uint64_t request) { return CancelRequested{request, job}; }).status();
}

absl::StatusOr<const JobRecord*> Coordinator::Find(const JobId& job) const {
  const auto found = state_.jobs().find(job);
  if (found == state_.jobs().end()) return absl::NotFoundError(absl::StrCat("there is no job ", job.value()));
  return &found->second;
}

absl::Status Coordinator::Follow(const JobId& job, Follower follower) {
  return Ask<bool>([this, job, follower = std::move(follower)]() -> absl::StatusOr<bool> {
           STAGECOACH_ASSIGN_OR_RETURN(const JobRecord* record, Find(job));
           runner_.AddFollower(*record, follower);
           return true;
         })
      .status();
}

absl::StatusOr<v1::JobStatus> Coordinator::GetJob(const JobId& job) {
  return Ask<v1::JobStatus>([this, job]() -> absl::StatusOr<v1::JobStatus> {
    STAGECOACH_ASSIGN_OR_RETURN(const JobRecord* record, Find(job));
    return StatusOf(*record);
  });
}

absl::StatusOr<JobDescription> Coordinator::DescribeJob(const JobId& job) {
  return Ask<JobDescription>([this, job]() -> absl::StatusOr<JobDescription> {
    STAGECOACH_ASSIGN_OR_RETURN(const JobRecord* record, Find(job));
    return Describe(*record);
  });
}

void Coordinator::Stop() {
  // The loop first: a result that a stopped thread could not give is not a job's failure.
  queue_.Close();
  thread_.Join();
  planning_thread_.Stop();
  file_thread_.Stop();
}

}  // namespace stagecoach
