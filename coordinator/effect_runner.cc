#include "coordinator/effect_runner.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "coordinator/jobs/job_state.h"
#include "formats/checkpoint.h"
#include "formats/text_corpus.h"

namespace stagecoach {
namespace {

PlanReady PlanJobOfSpec(const StartPlanning& order, const Planner& planner, FileSystem& files) {
  PlanReady result{order.job, order.attempt, nullptr, kReasonInvalidData};
  absl::StatusOr<TextCorpus> corpus = OpenTextCorpus(order.spec.data(), order.spec.training().seq_len(), files);
  if (!corpus.ok()) {
    result.plan = corpus.status();
    return result;
  }
  absl::StatusOr<PlannedJob> planned = planner(order.spec, order.workers);
  if (!planned.ok()) {
    result.plan = planned.status();
    result.failure_reason = kReasonPlanningFailed;
    return result;
  }
  result.plan = std::make_shared<const JobPlan>(
      JobPlan{*std::move(planned), corpus->num_train_samples, corpus->num_validation_samples});
  return result;
}

}  // namespace

absl::Status EffectRunner::Append(v1::JournalEntry entry, CoordinatorTerm term) {
  entry.set_sequence(to_.state.last_sequence() + 1);
  entry.set_coordinator_term(term.value());
  STAGECOACH_CHECK(to_.state.Check(entry).ok());
  const SyncMode sync = entry.has_step_committed() ? SyncMode::kBuffered : SyncMode::kSynced;
  STAGECOACH_RETURN_IF_ERROR(WithContext(to_.store.Append(entry, sync), "the journal cannot be written"));
  to_.state.Apply(entry);
  return absl::OkStatus();
}

absl::Status EffectRunner::Run(Decision decision) {
  for (Effect& effect : decision.effects) {
    STAGECOACH_RETURN_IF_ERROR(std::visit([this](auto& typed) { return RunEffect(typed); }, effect));
  }
  return absl::OkStatus();
}

void EffectRunner::SetSink(const WorkerId& worker, Incarnation incarnation, WorkerSink sink) {
  sessions_[worker] = Session{incarnation, std::move(sink)};
}

void EffectRunner::AddFollower(const JobRecord& job, Follower follower) {
  follower(StatusOf(job));
  if (!HasEnded(job.history.state)) followers_[job.id].push_back(std::move(follower));
}

void EffectRunner::EndFollowers(const absl::Status& why) {
  for (const auto& [job, followers] : std::exchange(followers_, {})) {
    for (const Follower& follower : followers) follower(why);
  }
}

absl::Status EffectRunner::RunEffect(AppendEntry& effect) { return Append(std::move(effect.entry), to_.state.term()); }

absl::Status EffectRunner::RunEffect(ObserveFact& effect) {
  to_.state.Observe(effect);
  const auto* lost = std::get_if<WorkerLost>(&effect.fact);
  if (lost == nullptr) return absl::OkStatus();
  const auto session = sessions_.find(lost->worker);
  if (session != sessions_.end() && session->second.incarnation == lost->incarnation) sessions_.erase(session);
  return absl::OkStatus();
}

absl::Status EffectRunner::RunEffect(SendToWorker& effect) {
  const auto found = sessions_.find(effect.worker);
  const Incarnation incarnation(effect.message.fence().incarnation());
  if (found == sessions_.end() || found->second.incarnation != incarnation) return absl::OkStatus();
  const absl::Status sent = found->second.sink(std::move(effect.message));
  if (sent.ok()) return absl::OkStatus();
  const absl::Status posted = to_.post(WorkerLost{effect.worker, incarnation, sent});
  // A full queue drops the loss; the next message to the worker finds it again.
  if (!posted.ok()) spdlog::warn("worker {} cannot be reached: {}", effect.worker.value(), sent.ToString());
  return absl::OkStatus();
}

absl::Status EffectRunner::RunEffect(StartPlanning& effect) {
  const JobId job = effect.job;
  const uint64_t attempt = effect.attempt;
  const absl::Status queued = to_.planning_thread.Run(
      [order = std::move(effect), &to = to_] { to.post_result(PlanJobOfSpec(order, to.planner, to.files)); });
  if (!queued.ok()) return to_.post(PlanReady{job, attempt, queued, kReasonPlanningFailed});
  return absl::OkStatus();
}

absl::Status EffectRunner::RunEffect(MakeDirectory& effect) {
  const JobId job = effect.job;
  const Epoch epoch = effect.epoch;
  const absl::Status queued = to_.file_thread.Run([order = std::move(effect), &to = to_] {
    to.post_result(DirectoryMade{order.job, order.epoch, MakeCheckpointDirectory(to.files, order.parent, order.step)});
  });
  if (!queued.ok()) return to_.post(DirectoryMade{job, epoch, queued});
  return absl::OkStatus();
}

absl::Status EffectRunner::RunEffect(WriteManifest& effect) {
  const JobId job = effect.job;
  const Epoch epoch = effect.epoch;
  const absl::Status queued = to_.file_thread.Run([order = std::move(effect), &to = to_] {
    to.post_result(
        ManifestWritten{order.job, order.epoch, PublishCheckpoint(to.files, order.directory, order.manifest)});
  });
  if (!queued.ok()) return to_.post(ManifestWritten{job, epoch, queued});
  return absl::OkStatus();
}

absl::Status EffectRunner::RunEffect(NotifyFollowers& effect) {
  const auto found = followers_.find(effect.job);
  if (found == followers_.end()) return absl::OkStatus();
  const FollowEvent event = std::visit([](auto& typed) { return FollowEvent(typed); }, effect.event);
  for (const Follower& follower : found->second) follower(event);
  const auto* status = std::get_if<v1::JobStatus>(&event);
  if (status != nullptr && HasEnded(status->state())) followers_.erase(found);
  return absl::OkStatus();
}

absl::Status EffectRunner::RunEffect(AnswerRequest& effect) {
  to_.answer(effect.request, std::move(effect.answer));
  return absl::OkStatus();
}

absl::Status EffectRunner::RunEffect(RequestTick&) {
  tick_requested_ = true;
  return absl::OkStatus();
}

}  // namespace stagecoach
