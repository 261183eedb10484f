#include "coordinator/worker_decisions.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/protocol_version.h"
#include "coordinator/hung_member.h"
#include "coordinator/jobs/job_decision.h"
#include "coordinator/jobs/job_end.h"
#include "coordinator/jobs/recovery.h"

namespace stagecoach {
namespace {

// So many earlier incarnations of a worker are known not to come back.
constexpr size_t kMaxSuperseded = 16;

// Who stays at one instruction for so long may hang; less than the shortest deadline of the verdict.
constexpr absl::Duration kHangCheckAfter = absl::Seconds(1);

void SetDuration(absl::Duration from, google::protobuf::Duration& to) {
  const int64_t seconds = absl::ToInt64Seconds(from);
  to.set_seconds(seconds);
  to.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(from - absl::Seconds(seconds))));
}

SendToWorker MakeWelcome(absl::Duration now, const State& state, const WorkerRecord& worker) {
  SendToWorker welcome{worker.id, {}};
  welcome.message.mutable_fence()->set_incarnation(worker.incarnation.value());
  welcome.message.mutable_fence()->set_coordinator_term(state.term().value());
  v1::Welcome& body = *welcome.message.mutable_welcome();
  const FleetOptions& options = state.options();
  body.set_protocol_version(kProtocolVersion);
  body.set_clock_nanoseconds(absl::ToInt64Nanoseconds(now));
  SetDuration(options.heartbeat_interval, *body.mutable_heartbeat_interval());
  if (options.lease != absl::InfiniteDuration()) SetDuration(options.lease, *body.mutable_lease());
  if (options.orphan_timeout != absl::InfiniteDuration()) {
    SetDuration(options.orphan_timeout, *body.mutable_orphan_timeout());
  }
  return welcome;
}

void Join(const State& state, const WorkerId& worker, Decision& decision) {
  if (state.fleet().contains(worker)) return;
  v1::JournalEntry entry;
  entry.mutable_worker_joined()->set_worker(worker.value());
  decision.effects.push_back(AppendEntry{std::move(entry)});
}

void LeaveFleet(const State& state, const WorkerId& worker, Decision& decision) {
  if (!state.fleet().contains(worker)) return;
  v1::JournalEntry entry;
  entry.mutable_worker_left()->set_worker(worker.value());
  decision.effects.push_back(AppendEntry{std::move(entry)});
}

// Those of before the restart that have not dialled do not count any more.
Decision GiveUpAwaited(const State& state) {
  const std::vector<WorkerId> awaited = state.AwaitedWorkers();
  Decision decision{{ObserveFact{FleetAwaited{}}}, ""};
  decision.reason = absl::StrCat(awaited.size(), " worker(s) have not dialled after the restart");
  for (const WorkerId& worker : awaited) LeaveFleet(state, worker, decision);
  return decision;
}

// The session ends, and the worker is remembered as lost.
Decision GiveUp(absl::Duration now, const State& state, const WorkerRecord& worker, WorkerLoss loss,
                const absl::Status& why) {
  Decision decision;
  decision.reason = absl::StrCat("worker ", worker.id.value(), " is lost: ", why.message());
  if (worker.session.has_value()) decision.effects.push_back(EndSession{*worker.session, why});
  WorkerRecord lost = worker;
  lost.presence = WorkerPresence::kLost;
  lost.session.reset();
  lost.job.reset();
  lost.why = why;
  lost.loss = loss;
  lost.deadline = now + state.options().remember_lost;
  decision.effects.push_back(ObserveFact{WorkerChanged{std::move(lost)}});
  LeaveFleet(state, worker.id, decision);
  return decision;
}

struct Membership {
  const JobRecord& job;
  WorkerRank rank;
  Incarnation incarnation;
};

// Of the worker of this name, which may not have dialled since a restart.
std::optional<Membership> FindMembership(const State& state, const WorkerId& worker) {
  for (const JobId& id : state.active_jobs()) {
    const JobRecord& job = state.jobs().at(id);
    if (job.progress.members == nullptr) continue;
    const std::vector<MemberId>& members = *job.progress.members;
    for (uint32_t rank = 0; rank < members.size(); ++rank) {
      if (members[rank].worker == worker) return Membership{job, WorkerRank(rank), members[rank].incarnation};
    }
  }
  return std::nullopt;
}

Decision LoseMember(absl::Duration now, const State& state, const Membership& member, const absl::Status& why) {
  const auto worker = state.workers().find(member.job.progress.members->at(member.rank.value()).worker);
  std::optional<v1::RunState> run;
  if (worker != state.workers().end()) run = RunIn(worker->second, member.job.id, member.job.history.epoch);
  JobDecision decision(SurroundingsOf(now, state), member.job);
  OnMemberLost(decision, member.rank, why, run);
  return std::move(decision).Finish("lost a member");
}

Decision Lose(absl::Duration now, const State& state, const WorkerRecord& worker, WorkerLoss loss,
              const absl::Status& why) {
  Decision decision = GiveUp(now, state, worker, loss, why);
  const auto member = worker.job.has_value() ? FindMembership(state, worker.id) : std::nullopt;
  if (member.has_value()) Extend(decision, LoseMember(now, state, *member, why));
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

// What is known of a worker's name, whoever has it.
void Inherit(const WorkerRecord& old, WorkerRecord& worker) {
  worker.superseded = old.superseded;
  if (old.incarnation == worker.incarnation) return;
  worker.superseded.push_back(old.incarnation);
  if (worker.superseded.size() > kMaxSuperseded) worker.superseded.erase(worker.superseded.begin());
}

bool WasSuperseded(const WorkerRecord& worker, Incarnation incarnation) {
  return std::count(worker.superseded.begin(), worker.superseded.end(), incarnation) > 0;
}

bool HoldsJob(const v1::Hello& hello, const JobRecord& job) { return hello.held().job() == job.id.value(); }

// What it holds is of a job that has ended or goes on without it.
void TellToGiveUp(const State& state, const WorkerRecord& worker, Decision& decision) {
  const v1::HeldJob& held = worker.hello.held();
  const auto job = state.jobs().find(JobId(held.job()));
  const uint64_t epoch = job == state.jobs().end() ? 0 : FenceEpoch(job->second.history).value();
  SendToWorker send{worker.id, {}};
  v1::Fence& fence = *send.message.mutable_fence();
  fence.set_job(held.job());
  fence.set_epoch(std::max(epoch, held.epoch()));
  fence.set_incarnation(worker.incarnation.value());
  fence.set_coordinator_term(state.term().value());
  send.message.mutable_abort()->set_reason("the job has ended, or goes on without this worker");
  decision.effects.push_back(send);
  send.message.mutable_release();
  decision.effects.push_back(std::move(send));
}

Decision OnDeadline(absl::Duration now, const State& state, const WorkerRecord& worker) {
  switch (worker.presence) {
    case WorkerPresence::kConnected:
      return Lose(now, state, worker, WorkerLoss::kLeaseExpired,
                  absl::DeadlineExceededError(
                      absl::StrCat("its lease is over: nothing was heard of it for ",
                                   absl::FormatDuration(absl::Trunc(now - worker.last_seen, absl::Milliseconds(1))))));
    case WorkerPresence::kSuspect:
      return Lose(now, state, worker, WorkerLoss::kSessionEnded, worker.why);
    case WorkerPresence::kLost:
      break;
  }
  return Decision{{ObserveFact{WorkerForgotten{worker.id}}},
                  absl::StrCat("worker ", worker.id.value(), " is forgotten")};
}

Decision Dismiss(const State& state, const WorkerRecord& worker) {
  SendToWorker dismiss{worker.id, {}};
  dismiss.message.mutable_fence()->set_incarnation(worker.incarnation.value());
  dismiss.message.mutable_fence()->set_coordinator_term(state.term().value());
  dismiss.message.mutable_dismiss();
  Decision decision;
  decision.reason = absl::StrCat("worker ", worker.id.value(), " is dismissed");
  decision.effects.push_back(std::move(dismiss));
  decision.effects.push_back(EndSession{*worker.session, absl::OkStatus()});
  decision.effects.push_back(ObserveFact{WorkerForgotten{worker.id}});
  LeaveFleet(state, worker.id, decision);
  return decision;
}

}  // namespace

Decision OnWorkerConnected(absl::Duration now, const State& state, const WorkerConnected& input) {
  const auto found = state.workers().find(input.worker);
  const WorkerRecord* old = found == state.workers().end() ? nullptr : &found->second;
  if (old != nullptr && WasSuperseded(*old, input.incarnation)) {
    return Decision{{EndSession{input.session, absl::AbortedError("another process has taken this worker's place")}},
                    absl::StrCat("worker ", input.worker.value(), ": an incarnation that was replaced is refused")};
  }
  const absl::Status taken_over = absl::AbortedError(
      absl::StrCat("worker ", input.worker.value(), " has dialled again, as incarnation ", input.incarnation.value()));
  Decision decision;
  if (old != nullptr && old->session.has_value()) decision.effects.push_back(EndSession{*old->session, taken_over});
  const std::optional<Membership> member = FindMembership(state, input.worker);
  const bool returns = member.has_value() && member->incarnation == input.incarnation;
  if (member.has_value() && !returns) Extend(decision, LoseMember(now, state, *member, taken_over));

  WorkerRecord worker = NewRecord(now, state.options(), input);
  if (old != nullptr) Inherit(*old, worker);
  if (returns) worker.job = member->job.id;
  worker.clearing = !input.hello.held().job().empty() && !(returns && HoldsJob(input.hello, member->job));
  Join(state, worker.id, decision);
  decision.effects.push_back(ObserveFact{WorkerChanged{worker}});
  decision.effects.push_back(MakeWelcome(now, state, worker));
  if (worker.clearing) TellToGiveUp(state, worker, decision);
  if (returns) {
    JobDecision job_decision(SurroundingsOf(now, state), member->job);
    OnMemberReturned(job_decision, member->rank, input.hello);
    Extend(decision, std::move(job_decision).Finish("a member has dialled again"));
  }
  decision.effects.push_back(RequestTick{});
  Extend(decision, {{}, absl::StrCat("worker ", input.worker.value(), " connected")});
  return decision;
}

Decision OnSessionEnded(absl::Duration now, const State& state, const SessionEnded& input) {
  const WorkerRecord* found = state.FindWorker(input.session);
  if (found == nullptr) {
    return Decision{{}, absl::StrCat("ignored: session ", input.session.value(), " had ended before")};
  }
  WorkerRecord worker = *found;
  worker.session.reset();
  Decision decision;
  if (worker.leaving.has_value()) {
    decision = Lose(now, state, worker, WorkerLoss::kLeft,
                    absl::UnavailableError(absl::StrCat("it has left: ", *worker.leaving)));
    decision.effects.push_back(RequestTick{});
    return decision;
  }
  worker.presence = WorkerPresence::kSuspect;
  worker.deadline = std::max(now + state.options().suspect_grace, state.pulse().lenient_until);
  worker.why = absl::UnavailableError(absl::StrCat("its session ended: ", input.why.message()));
  decision.reason = absl::StrCat("worker ", worker.id.value(), " is suspect");
  decision.effects.push_back(ObserveFact{WorkerChanged{worker}});
  const auto member = worker.job.has_value() ? FindMembership(state, worker.id) : std::nullopt;
  if (!member.has_value()) return decision;
  JobDecision job_decision(SurroundingsOf(now, state), member->job);
  OnMemberSuspect(job_decision, member->rank);
  Extend(decision, std::move(job_decision).Finish("a member is suspect"));
  return decision;
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
  reply.message.mutable_heartbeat_reply()->set_clock_nanoseconds(absl::ToInt64Nanoseconds(now));
  const bool may_hang = worker.job.has_value() && now - worker.unmoved_since >= kHangCheckAfter;
  Decision decision;
  decision.reason = "heartbeat";
  decision.effects.push_back(ObserveFact{WorkerChanged{std::move(worker)}});
  decision.effects.push_back(std::move(reply));
  if (may_hang) decision.effects.push_back(RequestTick{});
  return decision;
}

Decision OnLeaving(absl::Duration now, const State& state, const WorkerRecord& known, const v1::Leaving& leaving) {
  if (known.leaving.has_value()) return Decision{{}, "ignored: it has said before that it leaves"};
  WorkerRecord worker = known;
  worker.leaving = leaving.reason();
  Decision decision;
  decision.reason = absl::StrCat("worker ", worker.id.value(), " leaves: ", leaving.reason());
  decision.effects.push_back(ObserveFact{WorkerChanged{worker}});
  const auto member = worker.job.has_value() ? FindMembership(state, worker.id) : std::nullopt;
  if (member.has_value()) {
    JobDecision job_decision(SurroundingsOf(now, state), member->job);
    OnMemberLeaving(job_decision, member->rank);
    Extend(decision, std::move(job_decision).Finish("a member leaves"));
  }
  decision.effects.push_back(RequestTick{});
  return decision;
}

Decision OnCleared(const WorkerRecord& known) {
  WorkerRecord worker = known;
  worker.clearing = false;
  return Decision{{ObserveFact{WorkerChanged{std::move(worker)}}, RequestTick{}},
                  absl::StrCat("worker ", known.id.value(), " holds nothing any more")};
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

std::optional<Decision> OnWorkersTick(absl::Duration now, const State& state) {
  for (const auto& [id, worker] : state.workers()) {
    const bool is_idle_leaver = worker.leaving.has_value() && worker.session.has_value() && !worker.job.has_value();
    if (is_idle_leaver) return Dismiss(state, worker);
    if (now >= worker.deadline) return OnDeadline(now, state, worker);
  }
  if (now >= state.fleet_awaited_until()) return GiveUpAwaited(state);
  for (const JobId& id : state.active_jobs()) {
    const std::optional<HungMember> hung = FindHungMember(now, state, state.jobs().at(id));
    if (!hung.has_value()) continue;
    Decision decision = GiveUp(now, state, state.workers().at(hung->worker), WorkerLoss::kHung,
                               absl::DeadlineExceededError(hung->cause.message));
    JobDecision job_decision(SurroundingsOf(now, state), state.jobs().at(id));
    job_decision.said(hung->rank).lost = true;
    FailJob(job_decision, hung->cause);
    Extend(decision, std::move(job_decision).Finish("a member hangs"));
    return decision;
  }
  return std::nullopt;
}

}  // namespace stagecoach
