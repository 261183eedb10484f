#include "coordinator/trace_decisions.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/retention.h"

namespace stagecoach {
namespace {

Decision Refuse(const TraceRequested& input, const absl::Status& why) {
  return Decision{{AnswerRequest{input.request, why}}, absl::StrCat("no timeline: ", why.message())};
}

// Why the member cannot be asked; empty: it can.
std::string WhyNot(const Workers& workers, const v1::Member& member) {
  const auto worker = workers.find(WorkerId(member.worker()));
  if (worker == workers.end()) return "it is not there any more";
  if (worker->second.incarnation.value() != member.incarnation()) return "its process has ended";
  return worker->second.session.has_value() ? "" : "it is not connected";
}

v1::TraceHeader HeaderOf(const JobRecord& job, uint32_t steps) {
  v1::TraceHeader header;
  header.set_job(job.id.value());
  header.set_last_step(job.history.last_commit.step());
  header.set_first_step(header.last_step() - std::min<uint64_t>(steps, header.last_step()) + 1);
  const v1::Placement& placement = *job.history.placement;
  for (int rank = 0; rank < placement.members_size(); ++rank) {
    v1::TraceMember& member = *header.add_members();
    member.set_worker(placement.members(rank).worker());
    for (const uint32_t stage : StagesOf(job.history, WorkerRank(static_cast<uint32_t>(rank)))) {
      member.add_stages(stage);
    }
  }
  return header;
}

SendToWorker MakeReadTrace(const State& state, const v1::Member& member, uint64_t reading,
                           const v1::TraceHeader& header) {
  SendToWorker ask{WorkerId(member.worker()), {}};
  ask.message.mutable_fence()->set_incarnation(member.incarnation());
  ask.message.mutable_fence()->set_coordinator_term(state.term().value());
  v1::ReadTrace& order = *ask.message.mutable_read_trace();
  order.set_request(reading);
  order.set_job(header.job());
  order.set_first_step(header.first_step());
  order.set_last_step(header.last_step());
  return ask;
}

}  // namespace

Decision RequestTrace(absl::Duration now, const State& state, const TraceRequested& input) {
  const auto found = state.jobs().find(input.job);
  if (found == state.jobs().end()) return Refuse(input, UnknownJob(input.job, state.options()));
  const JobRecord& job = found->second;
  if (input.steps == 0) return Refuse(input, absl::InvalidArgumentError("a timeline of 0 steps; at least 1"));
  if (job.history.placement == nullptr || job.history.last_commit.step() == 0) {
    return Refuse(input, absl::FailedPreconditionError(
                             absl::StrCat("job ", job.id.value(), " has completed no step yet: there is no timeline")));
  }
  BeginTraceReading begin{
      .reading = input.reading, .header = HeaderOf(job, input.steps), .deadline = now + kTraceTimeout};
  Decision decision;
  for (int rank = 0; rank < job.history.placement->members_size(); ++rank) {
    const v1::Member& member = job.history.placement->members(rank);
    if (std::string why = WhyNot(state.workers(), member); !why.empty()) {
      begin.missing.emplace(static_cast<uint32_t>(rank), std::move(why));
      continue;
    }
    begin.awaited.emplace(WorkerId(member.worker()), static_cast<uint32_t>(rank));
    decision.effects.push_back(MakeReadTrace(state, member, input.reading, begin.header));
  }
  decision.effects.insert(decision.effects.begin(), std::move(begin));
  decision.effects.push_back(AnswerRequest{input.request, input.job});
  decision.reason = absl::StrCat("the timeline of job ", job.id.value(), " is read");
  return decision;
}

}  // namespace stagecoach
