#include "coordinator/metrics/coordinator_metrics.h"

#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"
#include "common/build_version.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/metrics/entry_time.h"

namespace stagecoach {
namespace {

constexpr char kLosses[] = "stagecoach_worker_losses_total";

const char* NameOf(WorkerLoss loss) {
  switch (loss) {
    case WorkerLoss::kSessionEnded:
      return "session_ended";
    case WorkerLoss::kLeaseExpired:
      return "lease_expired";
    case WorkerLoss::kLeft:
      return "left";
    case WorkerLoss::kHung:
      return "hung";
    case WorkerLoss::kNone:
      break;
  }
  return "replaced";
}

std::string NameOf(v1::JobState state) { return absl::AsciiStrToLower(JobStateName(state)); }

std::string NameOf(v1::WorkerState state) {
  return absl::AsciiStrToLower(std::string(absl::StripPrefix(v1::WorkerState_Name(state), "WORKER_STATE_")));
}

}  // namespace

CoordinatorMetrics::CoordinatorMetrics(MetricRegistry& registry, const Clock& clock, absl::Duration linger)
    : registry_(registry), clock_(clock), linger_(linger) {
  registry_.Gauge("stagecoach_build_info", {BuildVersion()}).Set(1);
  for (const char* outcome : {"accepted", "rejected"}) registry_.Counter("stagecoach_jobs_submitted_total", {outcome});
  for (const WorkerLoss loss : {WorkerLoss::kNone, WorkerLoss::kSessionEnded, WorkerLoss::kLeaseExpired,
                                WorkerLoss::kLeft, WorkerLoss::kHung}) {
    registry_.Counter(kLosses, {NameOf(loss)});
  }
}

void CoordinatorMetrics::OnEntry(const v1::JournalEntry& entry, const State& state, bool replayed) {
  if (replayed) return OnReplayed(entry, state);
  if (entry.has_coordinator_started()) {
    for (const JobId& id : state.active_jobs()) runs_.try_emplace(id, registry_, state.jobs().at(id), pasts_[id]);
    pasts_.clear();
    SetFleet(state);
  }
  const std::string job = JobOfEntry(entry);
  if (!job.empty()) OnJobEntry(entry, state.jobs().at(JobId(job)));
}

void CoordinatorMetrics::OnReplayed(const v1::JournalEntry& entry, const State& state) {
  const JobId id(JobOfEntry(entry));
  if (id.value().empty()) return;
  if (!state.active_jobs().contains(id)) {
    pasts_.erase(id);
    return;
  }
  RunPast& past = pasts_[id];
  const double time = UnixTimeOf(entry);
  if (entry.has_job_submitted()) past = {};
  const bool runs = entry.has_job_state_changed() && entry.job_state_changed().state() == v1::JOB_STATE_RUNNING;
  if (runs && past.started_time == 0) past.started_time = time;
  if (runs || entry.has_step_committed()) past.last_step_time = time;
  if (entry.has_checkpoint_completed()) past.last_checkpoint_time = time;
  if (entry.has_evaluation_completed()) past.validation_loss = entry.evaluation_completed().validation_loss();
}

void CoordinatorMetrics::OnJobEntry(const v1::JournalEntry& entry, const JobRecord& job) {
  if (entry.has_job_submitted()) {
    registry_.Counter("stagecoach_jobs_submitted_total", {"accepted"}).Increment();
    runs_.erase(job.id);  // of a forgotten job of the same name
    runs_.try_emplace(job.id, registry_, job, RunPast{});
    return;
  }
  const auto run = runs_.find(job.id);
  if (run == runs_.end()) return;
  run->second.OnEntry(entry, job);
  if (entry.has_job_state_changed() && HasEnded(job.history.state)) ended_.emplace_back(clock_.Now() + linger_, job.id);
}

void CoordinatorMetrics::BeforeFact(const ObserveFact& fact, const State& state) {
  if (const auto* changed = std::get_if<ProgressChanged>(&fact.fact)) {
    const auto run = runs_.find(changed->job);
    if (run != runs_.end()) run->second.OnProgress(changed->progress, clock_.Now());
  } else if (const auto* worker = std::get_if<WorkerChanged>(&fact.fact)) {
    CountLoss(worker->worker, state);
  } else if (std::holds_alternative<PulseSet>(fact.fact)) {
    SetFleet(state);
    RemoveEnded();
  }
}

void CoordinatorMetrics::CountLoss(const WorkerRecord& worker, const State& state) {
  const auto known = state.workers().find(worker.id);
  if (known == state.workers().end() || known->second.presence == WorkerPresence::kLost) return;
  const bool is_lost = worker.presence == WorkerPresence::kLost;
  const bool is_replaced = worker.incarnation != known->second.incarnation;
  if (is_lost || is_replaced) registry_.Counter(kLosses, {NameOf(worker.loss)}).Increment();
}

void CoordinatorMetrics::SetFleet(const State& state) {
  std::map<std::string, double> jobs, workers;
  for (int i = v1::JobState_MIN + 1; i <= v1::JobState_MAX; ++i) jobs[NameOf(static_cast<v1::JobState>(i))] = 0;
  for (int i = v1::WorkerState_MIN + 1; i <= v1::WorkerState_MAX; ++i) {
    workers[NameOf(static_cast<v1::WorkerState>(i))] = 0;
  }
  for (const auto& [id, job] : state.jobs()) ++jobs[NameOf(job.history.state)];
  for (const auto& [id, worker] : state.workers()) ++workers[NameOf(StateOf(worker))];
  for (const auto& [name, number] : jobs) registry_.Gauge("stagecoach_jobs", {name}).Set(number);
  for (const auto& [name, number] : workers) registry_.Gauge("stagecoach_workers", {name}).Set(number);
  registry_.Gauge("stagecoach_queue_depth").Set(jobs[NameOf(v1::JOB_STATE_QUEUED)]);
}

void CoordinatorMetrics::RemoveEnded() {
  while (!ended_.empty() && ended_.front().first <= clock_.Now()) {
    const auto run = runs_.find(ended_.front().second);
    // The name may be another job's by now.
    if (run != runs_.end() && run->second.has_ended()) runs_.erase(run);
    ended_.pop_front();
  }
}

void CoordinatorMetrics::OnStepMeasured(const StepMeasured& step, const State&) {
  const auto run = runs_.find(step.job);
  if (run != runs_.end()) run->second.OnStepMeasured(step, clock_.Now());
}

}  // namespace stagecoach
