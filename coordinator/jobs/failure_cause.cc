#include "coordinator/jobs/failure_cause.h"

#include "absl/strings/str_cat.h"
#include "coordinator/jobs/job_state.h"

namespace stagecoach {
namespace {

v1::RootCause RootCauseOf(const JobRecord& job, WorkerRank rank) {
  const MemberId& member = job.progress.members->at(rank.value());
  v1::RootCause cause;
  cause.set_worker(member.worker.value());
  cause.set_incarnation(member.incarnation.value());
  cause.set_worker_rank(rank.value());
  for (const uint32_t stage : StagesOf(job.history, rank)) cause.add_stages(stage);
  return cause;
}

std::string Place(const v1::RootCause& cause) {
  std::string text;
  if (cause.step() > 0) absl::StrAppend(&text, " in step ", cause.step());
  if (!cause.action().empty()) absl::StrAppend(&text, " at ", cause.action());
  return text;
}

}  // namespace

std::string MemberName(const JobRecord& job, WorkerRank rank) {
  std::string stages;
  for (const uint32_t stage : StagesOf(job.history, rank)) absl::StrAppend(&stages, ", stage ", stage);
  return absl::StrCat("worker ", job.progress.members->at(rank.value()).worker.value(), " (rank ", rank.value(), stages,
                      ")");
}

FailureCause CauseOfFailure(const JobRecord& job, WorkerRank rank, const v1::WorkerFailure& failure) {
  FailureCause cause{kReasonWorkerFailed, "", RootCauseOf(job, rank)};
  cause.root_cause.set_step(failure.step());
  cause.root_cause.set_action(failure.action());
  cause.root_cause.set_code(failure.code());
  cause.root_cause.set_message(failure.message());
  cause.message =
      absl::StrCat(MemberName(job, rank), " failed", Place(cause.root_cause), ": ",
                   absl::StatusCodeToString(static_cast<absl::StatusCode>(failure.code())), ": ", failure.message());
  return cause;
}

FailureCause CauseOfLoss(const JobRecord& job, WorkerRank rank, const absl::Status& why,
                         const std::optional<v1::RunState>& run) {
  FailureCause cause{kReasonWorkerLost, "", RootCauseOf(job, rank)};
  // In this phase too when the step has just been committed.
  const bool trains =
      job.progress.phase == Phase::kTraining && job.progress.step_in_flight.value() > job.history.last_commit.step();
  const bool runs = trains || job.progress.phase == Phase::kEvaluating;
  if (trains) cause.root_cause.set_step(job.progress.step_in_flight.value());
  if (runs && run.has_value()) {
    cause.root_cause.set_step(run->step());
    cause.root_cause.set_action(run->action());
  }
  cause.root_cause.set_code(static_cast<int>(why.code()));
  cause.root_cause.set_message(std::string(why.message()));
  cause.message = absl::StrCat(MemberName(job, rank), " was lost", Place(cause.root_cause), ": ", why.message());
  return cause;
}

FailureCause CauseOfHang(const JobRecord& job, const HangBlame& blame) {
  FailureCause cause{kReasonWorkerHung, "", RootCauseOf(job, blame.rank)};
  cause.root_cause.set_step(blame.step > 0 ? blame.step : job.progress.step_in_flight.value());
  cause.root_cause.set_action(blame.action);
  cause.root_cause.set_code(static_cast<int>(absl::StatusCode::kDeadlineExceeded));
  cause.root_cause.set_message(blame.message);
  cause.message = absl::StrCat(MemberName(job, blame.rank), " hangs: it ", blame.message);
  return cause;
}

}  // namespace stagecoach
