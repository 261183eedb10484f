#include "coordinator/decide.h"

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
#include "coordinator/jobs/queue.h"
#include "coordinator/jobs/step.h"

namespace stagecoach {
namespace {

Decision Ignored(std::string why) { return Decision{{}, absl::StrCat("ignored: ", why)}; }

void Extend(Decision& decision, Decision more) {
  std::move(more.effects.begin(), more.effects.end(), std::back_inserter(decision.effects));
  absl::StrAppend(&decision.reason, decision.reason.empty() ? "" : "; ", more.reason);
}

std::optional<WorkerRank> RankOf(const JobRecord& job, const WorkerId& worker, Incarnation incarnation) {
  if (job.progress.members == nullptr) return std::nullopt;
  const std::vector<MemberId>& members = *job.progress.members;
  for (uint32_t rank = 0; rank < members.size(); ++rank) {
    if (members[rank] == MemberId{worker, incarnation}) return WorkerRank(rank);
  }
  return std::nullopt;
}

// One call of Decide: what all its inputs need.
class Decider {
 public:
  Decider(absl::Duration now, const State& state) : now_(now), state_(state) {}

  Decision operator()(const WorkerConnected& input) const;
  Decision operator()(const WorkerLost& input) const;
  Decision operator()(const WorkerSaid& input) const;
  Decision operator()(const JobRequested& input) const;
  Decision operator()(const CancelRequested& input) const;
  Decision operator()(const PlanReady& input) const;
  Decision operator()(const DirectoryMade& input) const;
  Decision operator()(const ManifestWritten& input) const;
  Decision operator()(const Restarted& input) const;
  Decision operator()(const Tick& input) const;

 private:
  JobDecision On(const JobRecord& job) const { return JobDecision(now_, state_.term(), job); }
  const JobRecord* Find(const JobId& id) const {
    const auto found = state_.jobs().find(id);
    return found == state_.jobs().end() ? nullptr : &found->second;
  }
  // Null, with `why`: fenced.
  const JobRecord* JobOfMessage(const WorkerSaid& input, std::string& why) const;
  template <typename Handler>
  Decision OnJob(const JobId& id, const char* what, Handler handler) const;
  Decision Lose(const WorkerRecord& worker, const absl::Status& why) const;

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

Decision Decider::operator()(const WorkerConnected& input) const {
  Decision decision;
  const auto found = state_.workers().find(input.worker);
  if (found != state_.workers().end() && found->second.incarnation == input.incarnation) {
    return Ignored(absl::StrCat("worker ", input.worker.value(), " is already connected"));
  }
  if (found != state_.workers().end()) {
    Extend(decision, Lose(found->second, absl::UnavailableError("a new incarnation of it has connected")));
  }
  decision.effects.push_back(ObserveFact{input});
  SendToWorker welcome{input.worker, {}};
  welcome.message.mutable_fence()->set_incarnation(input.incarnation.value());
  welcome.message.mutable_fence()->set_coordinator_term(state_.term().value());
  welcome.message.mutable_welcome();
  decision.effects.push_back(std::move(welcome));
  decision.effects.push_back(RequestTick{});
  absl::StrAppend(&decision.reason, decision.reason.empty() ? "" : "; ", "worker ", input.worker.value(), " connected");
  return decision;
}

Decision Decider::Lose(const WorkerRecord& worker, const absl::Status& why) const {
  Decision decision;
  decision.reason = absl::StrCat("worker ", worker.id.value(), " lost");
  decision.effects.push_back(ObserveFact{WorkerLost{worker.id, worker.incarnation, why}});
  const JobRecord* job = worker.job.has_value() ? Find(*worker.job) : nullptr;
  const auto rank = job == nullptr ? std::nullopt : RankOf(*job, worker.id, worker.incarnation);
  if (!rank.has_value()) return decision;
  JobDecision job_decision = On(*job);
  OnMemberLost(job_decision, *rank, why);
  Extend(decision, std::move(job_decision).Finish("lost a worker"));
  return decision;
}

Decision Decider::operator()(const WorkerLost& input) const {
  const auto found = state_.workers().find(input.worker);
  if (found == state_.workers().end() || found->second.incarnation != input.incarnation) {
    return Ignored(absl::StrCat("loss of worker ", input.worker.value(), ", which is not connected as incarnation ",
                                input.incarnation.value()));
  }
  return Lose(found->second, input.why);
}

const JobRecord* Decider::JobOfMessage(const WorkerSaid& input, std::string& why) const {
  const v1::Fence& fence = input.message.fence();
  const auto worker = state_.workers().find(input.worker);
  const JobRecord* job = Find(JobId(fence.job()));
  if (worker == state_.workers().end() || worker->second.incarnation != Incarnation(fence.incarnation())) {
    why = absl::StrCat("incarnation ", fence.incarnation(), " is not connected");
  } else if (fence.coordinator_term() != state_.term().value()) {
    why = absl::StrCat("term ", fence.coordinator_term(), " is not this coordinator's, ", state_.term().value());
  } else if (job == nullptr || worker->second.job != job->id) {
    why = absl::StrCat("it is no member of job \"", fence.job(), "\"");
  } else if (job->history.epoch != Epoch(fence.epoch()) || job->progress.phase == Phase::kPlanning) {
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
    case v1::WorkerMessage::kFailure:
      return OnWorkerFailure(decision, rank, message.failure());
    case v1::WorkerMessage::kAborted:
      return OnAborted(decision, rank);
    case v1::WorkerMessage::kHello:  // opens a session, and is not part of one
    case v1::WorkerMessage::MESSAGE_NOT_SET:
      break;
  }
  return false;
}

Decision Decider::operator()(const WorkerSaid& input) const {
  std::string why;
  const JobRecord* job = JobOfMessage(input, why);
  if (job == nullptr) return Ignored(absl::StrCat("message of worker ", input.worker.value(), ": ", why));
  const auto rank = RankOf(*job, input.worker, Incarnation(input.message.fence().incarnation()));
  if (!rank.has_value()) return Ignored(absl::StrCat("worker ", input.worker.value(), " is no member"));
  return OnJob(job->id, "message of a worker",
               [&](JobDecision& decision) { return HandleMessage(decision, *rank, input.message); });
}

Decision Decider::operator()(const JobRequested& input) const {
  return SubmitJob(state_.jobs(), state_.workers(), input);
}

Decision Decider::operator()(const CancelRequested& input) const {
  const JobRecord* job = Find(input.job);
  if (job == nullptr || HasEnded(job->history.state)) {
    const absl::Status status =
        job == nullptr ? absl::NotFoundError(absl::StrCat("there is no job ", input.job.value()))
                       : absl::FailedPreconditionError(absl::StrCat(
                             "job ", input.job.value(), " has already ended: ", JobStateName(job->history.state)));
    return Decision{{AnswerRequest{input.request, status}}, "cancel refused"};
  }
  JobDecision decision = On(*job);
  CancelJob(decision);
  decision.Add(AnswerRequest{input.request, input.job});
  return std::move(decision).Finish("cancel requested");
}

Decision Decider::operator()(const PlanReady& input) const {
  return OnJob(input.job, "plan", [&](JobDecision& decision) { return OnPlanReady(decision, input); });
}

Decision Decider::operator()(const DirectoryMade& input) const {
  return OnJob(input.job, "checkpoint directory",
               [&](JobDecision& decision) { return OnDirectoryMade(decision, input); });
}

Decision Decider::operator()(const ManifestWritten& input) const {
  return OnJob(input.job, "manifest", [&](JobDecision& decision) { return OnManifestWritten(decision, input); });
}

Decision Decider::operator()(const Restarted&) const {
  Decision decision;
  for (const auto& [id, job] : state_.jobs()) {
    if (HasEnded(job.history.state) || job.history.state == v1::JOB_STATE_QUEUED) continue;
    JobDecision job_decision = On(job);
    if (job.history.state == v1::JOB_STATE_PREPARING) {
      job_decision.ChangeState(v1::JOB_STATE_QUEUED, kReasonWaitingForWorkers, "the coordinator was restarted");
    } else {
      EndJob(job_decision, v1::JOB_STATE_FAILED, kReasonCoordinatorRestarted,
             absl::StrCat("the coordinator was restarted after step ", job.history.last_commit.step(),
                          "; submit the job again"),
             /*abort=*/false);
    }
    Extend(decision, std::move(job_decision).Finish("restarted"));
  }
  decision.effects.push_back(RequestTick{});
  return decision;
}

Decision Decider::operator()(const Tick&) const {
  for (const auto& [id, job] : state_.jobs()) {
    if (job.progress.phase != Phase::kAborting) continue;
    JobDecision decision = On(job);
    if (OnAbortingTick(decision)) return std::move(decision).Finish("no more failures were reported");
  }
  const JobRecord* next = NextInQueue(state_.jobs());
  if (next == nullptr) return Decision{{}, "nothing waits"};
  JobDecision decision = On(*next);
  if (!TryToStart(decision, state_.workers())) return Decision{{}, "the queue waits for workers"};
  return std::move(decision).Finish("next in the queue");
}

}  // namespace

Decision Decide(absl::Duration now, const State& state, const Input& input) {
  return std::visit(Decider(now, state), input);
}

}  // namespace stagecoach
