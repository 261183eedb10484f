#include "coordinator/effect_runner.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "coordinator/jobs/job_events.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/retention.h"
#include "formats/checkpoint.h"
#include "google/protobuf/timestamp.pb.h"

namespace stagecoach {
namespace {

// What is made again, or known to workers, need not survive a loss of power.
SyncMode SyncModeOf(const v1::JournalEntry& entry) {
  switch (entry.fact_case()) {
    case v1::JournalEntry::kStepCommitted:
    case v1::JournalEntry::kEvaluationCompleted:
    case v1::JournalEntry::kWorkerJoined:
    case v1::JournalEntry::kWorkerLeft:
    case v1::JournalEntry::kJobsForgotten:
      return SyncMode::kBuffered;
    default:
      return SyncMode::kSynced;
  }
}

google::protobuf::Timestamp ToTimestamp(absl::Time time) {
  google::protobuf::Timestamp timestamp;
  const absl::Duration since_epoch = time - absl::UnixEpoch();
  const int64_t seconds = absl::ToInt64Seconds(absl::Floor(since_epoch, absl::Seconds(1)));
  timestamp.set_seconds(seconds);
  timestamp.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(since_epoch - absl::Seconds(seconds))));
  return timestamp;
}

}  // namespace

absl::Status EffectRunner::Append(v1::JournalEntry entry, CoordinatorTerm term) {
  entry.set_sequence(NextSequence(to_.state, entry));
  entry.set_coordinator_term(term.value());
  *entry.mutable_time() = ToTimestamp(to_.wall_clock());
  STAGECOACH_CHECK(to_.state.Check(entry).ok());
  STAGECOACH_RETURN_IF_ERROR(WithContext(to_.store.Append(entry, SyncModeOf(entry)), "the journal cannot be written"));
  Take(entry, /*replayed=*/false);
  return absl::OkStatus();
}

void EffectRunner::Take(const v1::JournalEntry& entry, bool replayed) {
  to_.state.Apply(entry);
  Record(entry);
  if (to_.observer != nullptr) to_.observer->OnEntry(entry, to_.state, replayed);
}

// Followers hear of it at the end of the decision: workers wait for what comes next in it.
void EffectRunner::Record(const v1::JournalEntry& entry) {
  const auto add = [&](const JobRecord& job) {
    event_log_.Add(job.id, EventOfEntry(entry, job));
    followers_.Wake(job.id);
  };
  if (entry.has_coordinator_started()) {
    for (const JobId& id : to_.state.active_jobs()) add(to_.state.jobs().at(id));
    return;
  }
  for (const std::string& job : entry.jobs_forgotten().jobs()) Forget(JobId(job));
  if (JobOfEntry(entry).empty()) return;
  const JobRecord& job = to_.state.jobs().at(JobId(JobOfEntry(entry)));
  add(job);
  if (HasEnded(job.history.state)) followers_.JobHasEnded(job.id);
}

void EffectRunner::Forget(const JobId& job) {
  event_log_.Forget(job);
  log_book_.Forget(job);
  publications_.erase(job);
  trace_readings_.Forget(job);
  followers_.JobIsForgotten(job, UnknownJob(job, to_.state.options()));
}

absl::Status EffectRunner::Run(Decision decision) {
  absl::Status status;
  for (Effect& effect : decision.effects) {
    status = std::visit([this](auto& typed) { return RunEffect(typed); }, effect);
    if (!status.ok()) break;
  }
  followers_.Pump();
  return status;
}

std::vector<Input> EffectRunner::TakeConsequences() {
  if (std::exchange(tick_requested_, false)) consequences_.push_back(Tick{});
  return std::exchange(consequences_, {});
}

void EffectRunner::EndAllSessions(const absl::Status& why) {
  for (const auto& [id, sink] : std::exchange(sessions_, {})) sink.end(why);
}

absl::Status EffectRunner::RunEffect(AppendEntry& effect) { return Append(std::move(effect.entry), to_.state.term()); }

absl::Status EffectRunner::RunEffect(ObserveFact& effect) {
  if (to_.observer != nullptr) to_.observer->BeforeFact(effect, to_.state);
  to_.state.Observe(effect);
  return absl::OkStatus();
}

absl::Status EffectRunner::RunEffect(SendToWorker& effect) {
  const auto worker = to_.state.workers().find(effect.worker);
  if (worker == to_.state.workers().end() || !worker->second.session.has_value()) return absl::OkStatus();
  if (worker->second.incarnation.value() != effect.message.fence().incarnation()) return absl::OkStatus();
  const SessionId session = *worker->second.session;
  const auto sink = sessions_.find(session);
  if (sink == sessions_.end()) return absl::OkStatus();
  const absl::Status sent = sink->second.send(std::move(effect.message));
  if (sent.ok()) return absl::OkStatus();
  sessions_.extract(sink).mapped().end(sent);
  consequences_.push_back(SessionEnded{session, sent});
  return absl::OkStatus();
}

absl::Status EffectRunner::RunEffect(EndSession& effect) {
  const auto sink = sessions_.extract(effect.session);
  if (!sink.empty()) sink.mapped().end(effect.why);
  return absl::OkStatus();
}

absl::Status EffectRunner::RunEffect(StartPlanning& effect) {
  const JobId job = effect.job;
  const uint64_t attempt = effect.attempt;
  const absl::Status queued = to_.planning_thread.Run(
      [order = std::move(effect), &to = to_] { to.post_result(PlanJobOfSpec(order, to.planner, to.files)); });
  if (!queued.ok()) consequences_.push_back(PlanReady{job, attempt, queued, kReasonPlanningFailed});
  return absl::OkStatus();
}

absl::Status EffectRunner::RunEffect(MakeDirectory& effect) {
  const JobId job = effect.job;
  const uint64_t attempt = effect.attempt;
  const absl::Status queued = to_.file_thread.Run([order = std::move(effect), &to = to_] {
    to.post_result(
        DirectoryMade{order.job, order.attempt, MakeCheckpointDirectory(to.files, order.parent, order.step)});
  });
  if (!queued.ok()) consequences_.push_back(DirectoryMade{job, attempt, queued});
  return absl::OkStatus();
}

absl::Status EffectRunner::RunEffect(WriteManifest& effect) {
  const JobId job = effect.job;
  const uint64_t attempt = effect.attempt;
  const auto is_abandoned = std::make_shared<std::atomic<bool>>(false);
  publications_[job] = {attempt, is_abandoned};
  const absl::Status queued = to_.file_thread.Run([order = std::move(effect), is_abandoned, &to = to_] {
    const auto may_go_on = [&] {
      return *is_abandoned ? absl::AbortedError("the checkpoint was given up: it was late") : absl::OkStatus();
    };
    to.post_result(ManifestWritten{order.job, order.attempt,
                                   PublishCheckpoint(to.files, order.directory, order.manifest, may_go_on)});
  });
  if (!queued.ok()) consequences_.push_back(ManifestWritten{job, attempt, queued});
  return absl::OkStatus();
}

absl::Status EffectRunner::RunEffect(AbandonManifest& effect) {
  const auto found = publications_.find(effect.job);
  if (found != publications_.end() && found->second.attempt == effect.attempt) *found->second.is_abandoned = true;
  return absl::OkStatus();
}

absl::Status EffectRunner::RunEffect(RemoveDirectory& effect) {
  RunOnFiles([directory = effect.directory, &files = to_.files] { return files.RemoveTree(directory); });
  return absl::OkStatus();
}

absl::Status EffectRunner::RunEffect(PruneOldCheckpoints& effect) {
  RunOnFiles([order = effect, &retention = retention_] {
    return retention.Prune(order.parent, order.job_name, order.keep_last).status();
  });
  return absl::OkStatus();
}

// What it does not achieve is only logged: disk space is lost, and nothing else.
void EffectRunner::RunOnFiles(std::function<absl::Status()> work) {
  const auto report = [](const absl::Status& status) {
    if (!status.ok()) spdlog::warn("checkpoints: {}", status.ToString());
  };
  report(to_.file_thread.Run([work = std::move(work), report] { report(work()); }));
}

absl::Status EffectRunner::RunEffect(KeepLogLines& effect) {
  log_book_.Add(effect.job, to_.state.term(), effect.worker, effect.lines);
  followers_.Wake(effect.job);
  return absl::OkStatus();
}

absl::Status EffectRunner::RunEffect(AnswerRequest& effect) {
  to_.answer(effect.request, std::move(effect.answer));
  return absl::OkStatus();
}

absl::Status EffectRunner::RunEffect(BeginTraceReading& effect) {
  trace_readings_.Begin(effect);
  return absl::OkStatus();
}

absl::Status EffectRunner::RunEffect(TakeTracePart& effect) {
  trace_readings_.Take(std::move(effect));
  return absl::OkStatus();
}

absl::Status EffectRunner::RunEffect(StepMeasured& effect) {
  trace_readings_.NoteStep(effect);
  if (to_.observer != nullptr) to_.observer->OnStepMeasured(effect, to_.state);
  return absl::OkStatus();
}

absl::Status EffectRunner::RunEffect(RequestTick&) {
  tick_requested_ = true;
  return absl::OkStatus();
}

}  // namespace stagecoach
