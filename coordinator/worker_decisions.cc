#include "coordinator/worker_decisions.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/protocol_version.h"
#include "coordinator/jobs/job_decision.h"
#include "coordinator/jobs/job_end.h"

namespace stagecoach {
namespace {

// So many earlier incarnations of a worker are known not to come back.
constexpr size_t kMaxSuperseded = 16;

void SetDuration(absl::Duration from, google::protobuf::Duration& to) {
  const int64_t seconds = absl::ToInt64Seconds(from);
  to.set_seconds(seconds);
  to.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(from - absl::Seconds(seconds))));
}

SendToWorker MakeWelcome(const State& state, const WorkerRecord& worker) {
  SendToWorker welcome{worker.id, {}};
  welcome.message.mutable_fence()->set_incarnation(worker.incarnation.value());
  welcome.message.mutable_fence()->set_coordinator_term(state.term().value());
  v1::Welcome& body = *welcome.message.mutable_welcome();
  const FleetOptions& options = state.options();
  body.set_protocol_version(kProtocolVersion);
  SetDuration(options.heartbeat_interval, *body.mutable_heartbeat_interval());
  if (options.lease != absl::InfiniteDuration()) SetDuration(options.lease, *body.mutable_lease());
  if (options.orphan_timeout != absl::InfiniteDuration()) {
    SetDuration(options.orphan_timeout, *body.mutable_orphan_timeout());
  }
  return welcome;
}

// What its job does about it.
void LeaveJob(absl::Duration now, const State& state, const WorkerRecord& worker, const absl::Status& why,
              Decision& decision) {
  const auto job = worker.job.has_value() ? state.jobs().find(*worker.job) : state.jobs().end();
  if (job == state.jobs().end()) return;
  const auto rank = RankOf(job->second, worker.id, worker.incarnation);
  if (!rank.has_value()) return;
  JobDecision job_decision(now, state.term(), job->second);
  OnMemberLost(job_decision, *rank, why, RunIn(worker, job->second.id, job->second.history.epoch));
  Extend(decision, std::move(job_decision).Finish("lost a member"));
}

Decision Lose(absl::Duration now, const State& state, const WorkerRecord& worker, const absl::Status& why) {
  Decision decision;
  decision.reason = absl::StrCat("worker ", worker.id.value(), " is lost: ", why.message());
  if (worker.session.has_value()) decision.effects.push_back(EndSession{*worker.session, why});
  WorkerRecord lost = worker;
  lost.presence = WorkerPresence::kLost;
  lost.session.reset();
  lost.job.reset();
  lost.why = why;
  lost.deadline = now + state.options().remember_lost;
  decision.effects.push_back(ObserveFact{WorkerChanged{std::move(lost)}});
  LeaveJob(now, state, worker, why, decision);
  return decision;
}

WorkerRecord NewRecord(absl::Duration now, const FleetOptions& options, const WorkerConnected& input) {
  WorkerRecord worker;
  worker.id = input.worker;
  worker.incarnation = input.incarnation;
  worker.hello = input.hello;
  worker.session = input.session;
  worker.deadline = now + options.lease;
  worker.last_seen = now;
  worker.unmoved_since = now;
  return worker;
}

absl::Status TakenOver(const WorkerRecord& old, Incarnation incarnation) {
  if (old.incarnation == incarnation) return absl::AbortedError("the same process has dialled again");
  return absl::AbortedError(absl::StrCat("another process has connected as worker ", old.id.value()));
}

}  // namespace

Decision OnWorkerConnected(absl::Duration now, const State& state, const WorkerConnected& input) {
  Decision decision;
  WorkerRecord worker = NewRecord(now, state.options(), input);
  const auto found = state.workers().find(input.worker);
  if (found != state.workers().end()) {
    const WorkerRecord& old = found->second;
    const absl::Status why = TakenOver(old, input.incarnation);
    worker.superseded = old.superseded;
    if (std::count(old.superseded.begin(), old.superseded.end(), input.incarnation) > 0) {
      return Decision{{EndSession{input.session, why}},
                      absl::StrCat("worker ", input.worker.value(), ": an incarnation that was replaced is refused")};
    }
    if (old.incarnation != input.incarnation) worker.superseded.push_back(old.incarnation);
    if (worker.superseded.size() > kMaxSuperseded) worker.superseded.erase(worker.superseded.begin());
    if (old.presence != WorkerPresence::kLost) Extend(decision, Lose(now, state, old, why));
  }
  decision.effects.push_back(ObserveFact{WorkerChanged{worker}});
  decision.effects.push_back(MakeWelcome(state, worker));
  decision.effects.push_back(RequestTick{});
  absl::StrAppend(&decision.reason, decision.reason.empty() ? "" : "; ", "worker ", input.worker.value(), " connected");
  return decision;
}

Decision OnSessionEnded(absl::Duration now, const State& state, const SessionEnded& input) {
  const WorkerRecord* found = state.FindWorker(input.session);
  if (found == nullptr) {
    return Decision{{}, absl::StrCat("ignored: session ", input.session.value(), " had ended before")};
  }
  WorkerRecord worker = *found;
  worker.presence = WorkerPresence::kSuspect;
  worker.session.reset();
  worker.deadline = now + state.options().suspect_grace;
  worker.why = absl::UnavailableError(absl::StrCat("its session ended: ", input.why.message()));
  return Decision{{ObserveFact{WorkerChanged{worker}}}, absl::StrCat("worker ", worker.id.value(), " is suspect")};
}

Decision OnHeartbeat(absl::Duration now, const State& state, const WorkerRecord& known,
                     const v1::WorkerMessage& message) {
  const v1::Heartbeat& heartbeat = message.heartbeat();
  WorkerRecord worker = known;
  worker.deadline = now + state.options().lease;
  worker.last_seen = now;
  NoteRun(now, message, worker);
  SendToWorker reply{worker.id, {}};
  reply.message.mutable_fence()->set_incarnation(worker.incarnation.value());
  reply.message.mutable_fence()->set_coordinator_term(state.term().value());
  reply.message.mutable_heartbeat_reply()->set_sequence(heartbeat.sequence());
  Decision decision;
  decision.reason = "heartbeat";
  decision.effects.push_back(ObserveFact{WorkerChanged{std::move(worker)}});
  decision.effects.push_back(std::move(reply));
  return decision;
}

Decision OnLogLines(const State& state, const WorkerRecord& worker, const v1::WorkerMessage& message) {
  const JobId id(message.fence().job());
  const auto job = state.jobs().find(id);
  const v1::Placement* placement = job == state.jobs().end() ? nullptr : job->second.history.placement.get();
  const bool is_member =
      placement != nullptr &&
      std::any_of(placement->members().begin(), placement->members().end(), [&](const v1::Member& member) {
        return member.worker() == worker.id.value() && member.incarnation() == worker.incarnation.value();
      });
  if (!is_member) return Decision{{}, "ignored: log lines about a job that the worker had no part in"};
  return Decision{{KeepLogLines{id, worker.id, message.log_lines()}}, "log lines"};
}

std::optional<Decision> OnWorkerDeadline(absl::Duration now, const State& state) {
  for (const auto& [id, worker] : state.workers()) {
    if (now < worker.deadline) continue;
    switch (worker.presence) {
      case WorkerPresence::kConnected:
        return Lose(now, state, worker,
                    absl::DeadlineExceededError(
                        absl::StrCat("nothing was heard of it for ", absl::FormatDuration(now - worker.last_seen))));
      case WorkerPresence::kSuspect:
        return Lose(now, state, worker, worker.why);
      case WorkerPresence::kLost:
        return Decision{{ObserveFact{WorkerForgotten{id}}}, absl::StrCat("worker ", id.value(), " is forgotten")};
    }
  }
  return std::nullopt;
}

}  // namespace stagecoach
