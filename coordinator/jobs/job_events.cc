#include "coordinator/jobs/job_events.h"

#include "absl/strings/str_cat.h"
#include "common/simulated_device.h"

namespace stagecoach {
namespace {

void Note(v1::JobEvent& event, const char* reason, std::string message) {
  event.mutable_note()->set_reason(reason);
  event.mutable_note()->set_message(std::move(message));
}

std::string EpochText(const v1::EpochStarted& started, const JobRecord& job) {
  std::string text = absl::StrCat("epoch ", started.placement().epoch(), " on");
  for (const v1::Member& member : started.placement().members()) absl::StrAppend(&text, " ", member.worker());
  if (job.history.spec->resources().device() == kSimulatedDevice) {
    absl::StrAppend(&text, ", which are simulated: what this job makes is no trained model");
  }
  return text;
}

std::string ResumptionText(const v1::JobResumed& resumed) {
  std::string text = absl::StrCat("from step ", resumed.checkpoint().step(), " in ", resumed.checkpoint().directory());
  for (const std::string& note : resumed.notes()) absl::StrAppend(&text, "; ", note);
  return text;
}

}  // namespace

v1::JobEvent EventOfEntry(const v1::JournalEntry& entry, const JobRecord& job) {
  v1::JobEvent event;
  event.set_sequence(entry.sequence());
  *event.mutable_time() = entry.time();
  switch (entry.fact_case()) {
    case v1::JournalEntry::kJobSubmitted:
    case v1::JournalEntry::kJobStateChanged:
      *event.mutable_status() = StatusOf(job);
      break;
    case v1::JournalEntry::kEpochStarted:
      Note(event, "EpochStarted", EpochText(entry.epoch_started(), job));
      break;
    case v1::JournalEntry::kEpochEnded:
      Note(event, "EpochEnded",
           absl::StrCat("epoch ", entry.epoch_ended().epoch(), ": ", entry.epoch_ended().reason()));
      break;
    case v1::JournalEntry::kStepCommitted:
      *event.mutable_step() = *job.history.last_step;
      break;
    case v1::JournalEntry::kEvaluationCompleted:
      event.mutable_validation()->set_step(entry.evaluation_completed().step());
      event.mutable_validation()->set_loss(entry.evaluation_completed().validation_loss());
      break;
    case v1::JournalEntry::kCheckpointCompleted:
      Note(
          event, "CheckpointCompleted",
          absl::StrCat("step ", entry.checkpoint_completed().step(), " in ", entry.checkpoint_completed().directory()));
      break;
    case v1::JournalEntry::kCheckpointFailed:
      Note(event, "CheckpointFailed",
           absl::StrCat("step ", entry.checkpoint_failed().step(), ": ", entry.checkpoint_failed().message()));
      break;
    case v1::JournalEntry::kJobResumed:
      Note(event, "JobResumed", ResumptionText(entry.job_resumed()));
      break;
    case v1::JournalEntry::kCoordinatorStarted:
      Note(event, "CoordinatorRestarted", absl::StrCat("term ", entry.coordinator_term()));
      break;
    case v1::JournalEntry::kWorkerJoined:
    case v1::JournalEntry::kWorkerLeft:
    case v1::JournalEntry::kJobsForgotten:
    case v1::JournalEntry::kCostsMeasured:
    case v1::JournalEntry::FACT_NOT_SET:
      break;
  }
  return event;
}

}  // namespace stagecoach
