#include "coordinator/decide.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "coordinator/jobs/checkpoint.h"
#include "coordinator/jobs/epoch.h"
#include "coordinator/jobs/evaluation.h"
#include "coordinator/jobs/job_decision.h"
#include "coordinator/jobs/job_end.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/jobs/profiling.h"
#include "coordinator/jobs/queue.h"
#include "coordinator/jobs/recovery.h"
#include "coordinator/jobs/requests.h"
#include "coordinator/jobs/step.h"
#include "coordinator/pulse.h"
#include "coordinator/retention.h"
#include "coordinator/trace_decisions.h"
#include "coordinator/worker_decisions.h"

namespace stagecoach {
namespace {

Decision Ignored(std::string why) { return Decision{{}, absl::StrCat("ignored: ", why)}; }

// One call of Decide: what all its inputs need.
class Decider {
 public:
  Decider(absl::Duration now, const State& state) : now_(now), state_(state) {}

  Decision operator()(const WorkerConnected& input) const { return OnWorkerConnected(now_, state_, input); }
  Decision operator()(const SessionEnded& input) const { return OnSessionEnded(now_, state_, input); }
  Decision operator()(const WorkerSaid& input) const;
  Decision operator()(const JobRequested& input) const;
  Decision operator()(const CancelRequested& input) const { return OnRequest(input, "cancel", CancelJob); }
  Decision operator()(const PauseRequested& input) const { return OnRequest(input, "pause", PauseJob); }
  Decision operator()(const ResumeRequested& input) const { return OnRequest(input, "resume", ResumeJob); }
  Decision operator()(const CheckpointRequested& input) const {
    return OnRequest(input, "checkpoint", CreateCheckpoint);
  }
  Decision operator()(const TraceRequested& input) const { return RequestTrace(now_, state_, input); }
  Decision operator()(const PlanReady& input) const;
  Decision operator()(const DirectoryMade& input) const;
  Decision operator()(const ManifestWritten& input) const;
  Decision operator()(const Restarted& input) const;
  Decision operator()(const Tick& input) const;

 private:
  JobDecision On(const JobRecord& job) const { return JobDecision(SurroundingsOf(now_, state_), job); }
  const JobRecord* Find(const JobId& id) const {
    const auto found = state_.jobs().find(id);
    return found == state_.jobs().end() ? nullptr : &found->second;
  }
  // Null, with `why`: fenced.
  const JobRecord* JobOfMessage(const WorkerRecord& worker, const v1::Fence& fence, std::string& why) const;
  Decision OnJobMessage(const WorkerRecord& worker, const v1::WorkerMessage& message) const;
  Decision OnMeasurement(const WorkerRecord& worker, const v1::WorkerMessage& message) const;
  template <typename Handler>
  Decision OnJob(const JobId& id, const char* what, Handler handler) const;
  template <typename Requested>
  Decision OnRequest(const Requested& input, const char* what, absl::Status (*handle)(JobDecision&)) const;

  const absl::Duration now_;
  const State& state_;
};

template <typename Handler>
Decision Decider::OnJob(const JobId& id, const char* what, Handler handler) const {
  const JobRecord* job = Find(id);
  if (job == nullptr) return Ignored(absl::StrCat(what, " of unknown job ", id.value()));
  JobDecision decision = On(*job);
  if (!handler(decision)) return Ignored(absl::StrCat(what, " of job ", id.value(), " at the wrong time or twice"));
  return std::move(decision).Finish(what);
}

const JobRecord* Decider::JobOfMessage(const WorkerRecord& worker, const v1::Fence& fence, std::string& why) const {
  const JobRecord* job = Find(JobId(fence.job()));
  if (job == nullptr || worker.job != job->id) {
    why = absl::StrCat("it is no member of job \"", fence.job(), "\"");
  } else if (!HasEpoch(job->progress) || Epoch(fence.epoch()) < job->history.epoch ||
             FenceEpoch(job->history) < Epoch(fence.epoch())) {
    why = absl::StrCat("epoch ", fence.epoch(), " of job ", fence.job(), " is not the current one");
  } else {
    return job;
  }
  return nullptr;
}

bool HandleMessage(JobDecision& decision, WorkerRank rank, const v1::WorkerMessage& message) {
  switch (message.message_case()) {
    case v1::WorkerMessage::kStagesPrepared:
      return OnStagesPrepared(decision, rank, message.stages_prepared());
    case v1::WorkerMessage::kPeersConnected:
      return OnPeersConnected(decision, rank);
    case v1::WorkerMessage::kStepPrepared:
      return OnStepPrepared(decision, rank, message.step_prepared());
    case v1::WorkerMessage::kStepApplied:
      return OnStepApplied(decision, rank, message.step_applied());
    case v1::WorkerMessage::kEvaluationDone:
      return OnEvaluationDone(decision, rank, message.evaluation_done());
    case v1::WorkerMessage::kShardWritten:
      return OnShardWritten(decision, rank, message.shard_written());
    case v1::WorkerMessage::kShardFailed:
      return OnShardFailed(decision, rank, message.shard_failed());
    case v1::WorkerMessage::kFailure:
      return OnWorkerFailure(decision, rank, message.failure());
    case v1::WorkerMessage::kAborted:
      return OnAborted(decision, rank);
    default:  // not about a job
      return false;
  }
}

Decision Decider::OnJobMessage(const WorkerRecord& worker, const v1::WorkerMessage& message) const {
  std::string why;
  const JobRecord* job = JobOfMessage(worker, message.fence(), why);
  if (job == nullptr) return Ignored(absl::StrCat("message of worker ", worker.id.value(), ": ", why));
  const auto rank = RankOf(*job, worker.id, worker.incarnation);
  if (!rank.has_value()) return Ignored(absl::StrCat("worker ", worker.id.value(), " is no member"));
  return OnJob(job->id, "message of a worker",
               [&](JobDecision& decision) { return HandleMessage(decision, *rank, message); });
}

Decision Decider::operator()(const WorkerSaid& input) const {
  const WorkerRecord* worker = state_.FindWorker(input.session);
  if (worker == nullptr)
    return Ignored(absl::StrCat("message of session ", input.session.value(), ", which has ended"));
  const v1::Fence& fence = input.message.fence();
  if (worker->incarnation != Incarnation(fence.incarnation())) {
    return Ignored(absl::StrCat("message of incarnation ", fence.incarnation(), ", which is not the session's"));
  }
  if (fence.coordinator_term() != state_.term().value()) {
    return Ignored(absl::StrCat("message of term ", fence.coordinator_term(), ", which is not this coordinator's, ",
                                state_.term().value()));
  }
  if (input.message.has_heartbeat()) return OnHeartbeat(now_, state_, *worker, input.message);
  if (input.message.has_leaving()) return OnLeaving(now_, state_, *worker, input.message.leaving());
  if (input.message.has_aborted() && worker->clearing) return OnCleared(*worker);
  if (input.message.has_log_lines()) return OnLogLines(state_, *worker, input.message);
  if (input.message.has_trace_part()) {
    return Decision{{TakeTracePart{worker->id, input.message.trace_part()}}, "a piece of a timeline"};
  }
  if (input.message.has_layers_measured()) return OnMeasurement(*worker, input.message);
  return OnJobMessage(*worker, input.message);
}

// The job has no epoch yet.
Decision Decider::OnMeasurement(const WorkerRecord& worker, const v1::WorkerMessage& message) const {
  if (worker.job != JobId(message.fence().job())) {
    return Ignored(absl::StrCat("layers that worker ", worker.id.value(), " has measured for job \"",
                                message.fence().job(), "\", which it is no member of"));
  }
  return OnJob(*worker.job, "measured layers", [&](JobDecision& decision) {
    const auto rank = RankOf(decision.job(), worker.id, worker.incarnation);
    return rank.has_value() && OnLayersMeasured(decision, *rank, message.layers_measured());
  });
}

Decision Decider::operator()(const JobRequested& input) const {
  return SubmitJob(state_.jobs(), state_.forgotten_epoch(), input);
}

template <typename Requested>
Decision Decider::OnRequest(const Requested& input, const char* what, absl::Status (*handle)(JobDecision&)) const {
  const JobRecord* job = Find(input.job);
  if (job == nullptr) {
    const absl::Status status = UnknownJob(input.job, state_.options());
    return Decision{{AnswerRequest{input.request, status}}, absl::StrCat(what, " of an unknown job")};
  }
  JobDecision decision = On(*job);
  if (const absl::Status status = handle(decision); !status.ok()) {
    return Decision{{AnswerRequest{input.request, status}}, absl::StrCat(what, " refused")};
  }
  decision.Add(AnswerRequest{input.request, input.job});
  return std::move(decision).Finish(absl::StrCat(what, " requested"));
}

Decision Decider::operator()(const PlanReady& input) const {
  return OnJob(input.job, "plan",
               [&](JobDecision& decision) { return OnPlanReady(decision, input) || OnReplanned(decision, input); });
}

Decision Decider::operator()(const DirectoryMade& input) const {
  return OnJob(input.job, "checkpoint directory",
               [&](JobDecision& decision) { return OnDirectoryMade(decision, input); });
}

Decision Decider::operator()(const ManifestWritten& input) const {
  return OnJob(input.job, "manifest", [&](JobDecision& decision) { return OnManifestWritten(decision, input); });
}

Decision Decider::operator()(const Restarted&) const {
  Decision decision{{FirstPulse(now_, state_)}, ""};
  if (!state_.fleet().empty()) {
    decision.effects.push_back(ObserveFact{FleetAwaited{now_ + state_.options().reattach_timeout}});
  }
  for (const JobId& id : state_.active_jobs()) {
    JobDecision job_decision = On(state_.jobs().at(id));
    OnRestarted(job_decision);
    Extend(decision, std::move(job_decision).Finish("restarted"));
  }
  decision.effects.push_back(RequestTick{});
  return decision;
}

// One thing at a time: what is done changes what is to be done.
Decision Decider::operator()(const Tick&) const {
  std::optional<Decision> decision = OnPulse(now_, state_);
  if (!decision.has_value()) decision = OnWorkersTick(now_, state_);
  if (!decision.has_value()) decision = ForgetJobs(state_);
  if (decision.has_value()) {
    decision->effects.push_back(RequestTick{});
    return *std::move(decision);
  }
  for (const JobId& id : state_.active_jobs()) {
    const JobProgress& progress = state_.jobs().at(id).progress;
    if (now_ < std::min(progress.deadline, progress.checkpoint.deadline)) continue;
    JobDecision job_decision = On(state_.jobs().at(id));
    if (now_ >= progress.checkpoint.deadline) {
      OnCheckpointLate(job_decision);
      return std::move(job_decision).Finish("the checkpoint is late");
    }
    OnPhaseDeadline(job_decision, state_.workers());
    return std::move(job_decision).Finish("the phase has lasted for too long");
  }
  const JobRecord* next = NextInQueue(state_.jobs(), state_.active_jobs());
  if (next == nullptr) return Decision{{}, "nothing waits"};
  JobDecision job_decision = On(*next);
  const bool fleet_is_complete = state_.AwaitedWorkers().empty();
  if (!TryToStart(job_decision, state_.workers(), fleet_is_complete))
    return Decision{{}, "the queue waits for workers"};
  return std::move(job_decision).Finish("next in the queue");
}

}  // namespace

Decision Decide(absl::Duration now, const State& state, const Input& input) {
  return std::visit(Decider(now, state), input);
}

}  // namespace stagecoach
