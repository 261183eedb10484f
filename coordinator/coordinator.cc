#include "coordinator/coordinator.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/mutex.h"
#include "common/protocol_version.h"
#include "common/status_macros.h"
#include "coordinator/deadlines.h"
#include "coordinator/decide.h"
#include "coordinator/descriptions.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/retention.h"

namespace stagecoach {
namespace {

// Places in the queue for what must not be lost: results of effects, of which there are a few a job, and ends of
// sessions and followers.
constexpr size_t kReservedPlaces = 1 << 16;

// Between two looks at the clock, which may be a simulated one.
constexpr absl::Duration kLongestWait = absl::Milliseconds(100);

// What one thread waits for and another sets. Thread-safe.
template <typename T>
class Answer {
 public:
  void Set(absl::StatusOr<T> value) {
    MutexLock lock(mutex_);
    value_ = std::move(value);
    is_set_.NotifyAll();
  }
  absl::StatusOr<T> Wait(absl::Duration timeout) {
    const auto deadline = DeadlineIn(timeout);
    MutexLock lock(mutex_);
    while (!value_.has_value()) {
      if (!is_set_.WaitUntil(mutex_, deadline) && !value_.has_value()) {
        return absl::UnavailableError(absl::StrCat("the coordinator has not answered in ",
                                                   absl::FormatDuration(timeout), "; it may still do what was asked"));
      }
    }
    return *std::move(value_);
  }

 private:
  Mutex mutex_;
  CondVar is_set_;
  std::optional<absl::StatusOr<T>> value_ ABSL_GUARDED_BY(mutex_);
};

absl::Status Unanswered() { return absl::UnavailableError("the coordinator has not answered"); }

absl::Status CheckHello(const v1::Hello& hello, Incarnation incarnation) {
  if (hello.protocol_version() != kProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "worker \"", hello.worker(), "\" speaks version ", hello.protocol_version(),
        " of the protocol, and this coordinator version ", kProtocolVersion, "; run the same build of both"));
  }
  if (hello.worker().empty()) return absl::InvalidArgumentError("a worker has no name");
  if (incarnation == Incarnation()) {
    return absl::InvalidArgumentError(absl::StrCat("worker \"", hello.worker(), "\" has no incarnation"));
  }
  return absl::OkStatus();
}

}  // namespace

Coordinator::Coordinator(Options options)
    : options_(std::move(options)),
      queue_(options_.clock, options_.queue_capacity, kReservedPlaces),
      state_(options_.fleet),
      last_answer_(Unanswered()),
      planning_thread_("planning"),
      file_thread_("files"),
      runner_({.state = state_,
               .store = options_.store,
               .files = options_.files,
               .planner = options_.planner,
               .wall_clock = options_.wall_clock,
               .planning_thread = planning_thread_,
               .file_thread = file_thread_,
               .post_result =
                   [this](Input input) {
                     // Lost only when the coordinator has stopped: there are fewer effects than reserved places.
                     queue_.PushReserved([this, input = std::move(input)]() mutable { Handle(std::move(input)); })
                         .IgnoreError();
                   },
               .answer =
                   [this](uint64_t request, absl::StatusOr<JobId> answer) {
                     if (request == last_request_) last_answer_ = std::move(answer);
                   },
               .observer = options_.observer}) {}

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Create(Options options) {
  STAGECOACH_RETURN_IF_ERROR(options.store.Lock());
  std::unique_ptr<Coordinator> coordinator(new Coordinator(std::move(options)));
  STAGECOACH_RETURN_IF_ERROR(coordinator->Replay());
  Coordinator* const raw = coordinator.get();
  coordinator->thread_ = NamedThread("coordinator", [raw] { raw->Loop(); });
  return coordinator;
}

absl::Status Coordinator::Replay() {
  JournalCompaction compaction(options_.compaction);
  STAGECOACH_RETURN_IF_ERROR(options_.store.ReadAll([&](const v1::JournalEntry& entry) {
    if (absl::Status status = state_.Check(entry); !status.ok()) {
      return absl::DataLossError(absl::StrCat("the journal contradicts itself: ", status.message()));
    }
    runner_.Replay(entry);
    compaction.Count(entry);
    return absl::OkStatus();
  }));
  if (compaction.IsWorthwhile()) {
    // The journal is as good as before when this fails.
    if (const absl::Status status = Compact(compaction); !status.ok()) {
      spdlog::warn("the journal could not be made smaller: {}", status.ToString());
    }
  }
  v1::JournalEntry started;
  started.mutable_coordinator_started();
  term_ = CoordinatorTerm(state_.term().value() + 1);
  STAGECOACH_RETURN_IF_ERROR(runner_.Append(started, term_));
  Handle(Restarted{});
  return halted_;
}

absl::Status Coordinator::Compact(JournalCompaction& compaction) {
  std::vector<v1::JournalEntry> kept;
  STAGECOACH_RETURN_IF_ERROR(options_.store.ReadAll([&](const v1::JournalEntry& entry) {
    std::optional<v1::JournalEntry> left = compaction.Keep(entry);
    if (left.has_value()) kept.push_back(*std::move(left));
    return absl::OkStatus();
  }));
  return options_.store.Snapshot(kept, state_.last_sequence());
}

void Coordinator::Loop() {
  loop_id_ = std::this_thread::get_id();
  while (true) {
    if (options_.beat != nullptr) options_.beat->Turn();
    const absl::Duration deadline = halted_.ok() ? NextDeadline(state_) : absl::InfiniteDuration();
    const absl::Duration wait = runner_.followers().AnyoneIsBehind()
                                    ? absl::ZeroDuration()
                                    : std::min(deadline - options_.clock.Now(), kLongestWait);
    const absl::StatusOr<InputQueue::Item> next = queue_.Pop(std::max(wait, absl::ZeroDuration()));
    if (!next.ok() && !absl::IsDeadlineExceeded(next.status())) break;
    // What came before a deadline counts, however late it is looked at.
    if ((next.ok() ? next->arrived : options_.clock.Now()) >= deadline) Handle(Tick{});
    if (next.ok()) next->run();
    runner_.followers().Pump();
    runner_.trace_readings().Expire(options_.clock.Now());
  }
  const absl::Status why = absl::UnavailableError("the coordinator was stopped");
  runner_.followers().EndAll(why);
  runner_.trace_readings().EndAll(why);
  runner_.EndAllSessions(why);
}

void Coordinator::Handle(Input input) {
  std::vector<Input> inputs;
  inputs.push_back(std::move(input));
  // Most inputs have no consequences, and those that have settle.
  for (size_t i = 0; i < inputs.size() && halted_.ok(); ++i) {
    Decision decision = Decide(options_.clock.Now(), state_, inputs[i]);
    spdlog::debug("{}", decision.reason);
    const absl::Status status = runner_.Run(std::move(decision));
    if (!status.ok()) return Halt(status);
    std::vector<Input> consequences = runner_.TakeConsequences();
    std::move(consequences.begin(), consequences.end(), std::back_inserter(inputs));
  }
}

void Coordinator::Halt(const absl::Status& why) {
  halted_ = why;
  spdlog::error("the coordinator has halted: {}", why.ToString());
  const absl::Status told = absl::UnavailableError(why.message());
  runner_.followers().EndAll(told);
  runner_.trace_readings().EndAll(told);
  runner_.EndAllSessions(told);
  options_.on_halt(why);
}

absl::StatusOr<SessionId> Coordinator::ConnectWorker(const v1::Hello& hello, Incarnation incarnation, WorkerSink sink) {
  STAGECOACH_RETURN_IF_ERROR(CheckHello(hello, incarnation));
  const SessionId session(++last_session_);
  STAGECOACH_RETURN_IF_ERROR(queue_.Push([this, hello, incarnation, session, sink = std::move(sink)] {
    if (!halted_.ok()) return sink.end(absl::UnavailableError(halted_.message()));
    runner_.AddSession(session, sink);
    Handle(WorkerConnected{WorkerId(hello.worker()), incarnation, session, hello});
  }));
  return session;
}

absl::Status Coordinator::Deliver(SessionId session, v1::WorkerMessage message, std::function<void()> handled) {
  return queue_.Push([this, said = WorkerSaid{session, std::move(message)}, handled = std::move(handled)]() mutable {
    Handle(std::move(said));
    handled();
  });
}

absl::Status Coordinator::EndSession(SessionId session, const absl::Status& why) {
  return queue_.PushReserved([this, session, why] {
    runner_.ForgetSession(session);
    Handle(SessionEnded{session, why});
  });
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
  return answer->Wait(options_.request_timeout);
}

absl::StatusOr<JobId> Coordinator::Request(std::function<Input(uint64_t)> make_input) {
  return Ask<JobId>([this, make_input = std::move(make_input)]() -> absl::StatusOr<JobId> {
    last_answer_ = Unanswered();
    Handle(make_input(++last_request_));
    return halted_.ok() ? last_answer_ : absl::UnavailableError(halted_.message());
  });
}

absl::StatusOr<JobId> Coordinator::SubmitJob(const v1::SubmitJobRequest& request) {
  return Request([request](uint64_t id) { return JobRequested{id, request.spec(), request.submission_id()}; });
}

absl::Status Coordinator::CancelJob(const JobId& job) {
  return Request([job](uint64_t request) { return CancelRequested{request, job}; }).status();
}

absl::Status Coordinator::PauseJob(const JobId& job) {
  return Request([job](uint64_t request) { return PauseRequested{request, job}; }).status();
}

absl::Status Coordinator::ResumeJob(const JobId& job) {
  return Request([job](uint64_t request) { return ResumeRequested{request, job}; }).status();
}

absl::Status Coordinator::CreateCheckpoint(const JobId& job) {
  return Request([job](uint64_t request) { return CheckpointRequested{request, job}; }).status();
}

absl::StatusOr<const JobRecord*> Coordinator::Find(const JobId& job) const {
  const auto found = state_.jobs().find(job);
  if (found == state_.jobs().end()) return UnknownJob(job, state_.options());
  return &found->second;
}

absl::StatusOr<v1::Job> Coordinator::DescribeJob(const JobId& job) {
  return Ask<v1::Job>([this, job]() -> absl::StatusOr<v1::Job> {
    STAGECOACH_ASSIGN_OR_RETURN(const JobRecord* record, Find(job));
    return stagecoach::DescribeJob(*record);
  });
}

absl::StatusOr<v1::ListJobsResponse> Coordinator::ListJobs() {
  return Ask<v1::ListJobsResponse>(
      [this]() -> absl::StatusOr<v1::ListJobsResponse> { return stagecoach::ListJobs(state_); });
}

absl::StatusOr<v1::ListWorkersResponse> Coordinator::ListWorkers() {
  return Ask<v1::ListWorkersResponse>([this]() -> absl::StatusOr<v1::ListWorkersResponse> {
    return stagecoach::ListWorkers(state_, options_.clock.Now());
  });
}

absl::StatusOr<FollowerId> Coordinator::FollowJob(const v1::FollowJobRequest& request, JobFollower follower) {
  const FollowerId id(++last_follower_);
  return Ask<FollowerId>([this, id, request, follower = std::move(follower)]() -> absl::StatusOr<FollowerId> {
    STAGECOACH_ASSIGN_OR_RETURN(const JobRecord* job, Find(JobId(request.job())));
    STAGECOACH_RETURN_IF_ERROR(CheckToken(*job, request.after_sequence(), state_.options()));
    runner_.followers().Add(id, request, StatusOf(*job), HasEnded(job->history.state), follower);
    return id;
  });
}

absl::StatusOr<FollowerId> Coordinator::FollowLogs(const v1::FollowLogsRequest& request, LogFollower follower) {
  const FollowerId id(++last_follower_);
  return Ask<FollowerId>([this, id, request, follower = std::move(follower)]() -> absl::StatusOr<FollowerId> {
    STAGECOACH_ASSIGN_OR_RETURN(const JobRecord* job, Find(JobId(request.job())));
    runner_.followers().Add(id, request, term_, HasEnded(job->history.state), follower);
    return id;
  });
}

void Coordinator::Unfollow(FollowerId follower) {
  // When the queue takes nothing more the coordinator has stopped, and with it everything has ended.
  queue_.PushReserved([this, follower] { runner_.followers().Remove(follower); }).IgnoreError();
}

absl::StatusOr<uint64_t> Coordinator::ReadTrace(const v1::ReadTraceRequest& request, TraceReader reader) {
  const uint64_t reading = ++last_reading_;
  return Ask<uint64_t>([this, reading, request, reader = std::move(reader)]() -> absl::StatusOr<uint64_t> {
    STAGECOACH_RETURN_IF_ERROR(runner_.trace_readings().Add(reading, reader));
    last_answer_ = Unanswered();
    Handle(TraceRequested{++last_request_, reading, JobId(request.job()), request.steps()});
    if (last_answer_.ok()) return reading;
    runner_.trace_readings().Remove(reading);
    return last_answer_.status();
  });
}

void Coordinator::StopReading(uint64_t reading) {
  // As in Unfollow.
  queue_.PushReserved([this, reading] { runner_.trace_readings().Remove(reading); }).IgnoreError();
}

void Coordinator::Stop() {
  // The loop first: a result that a stopped thread could not give is not a job's failure.
  queue_.Close();
  thread_.Join();
  planning_thread_.Stop();
  file_thread_.Stop();
}

}  // namespace stagecoach
