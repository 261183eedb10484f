#include "client/commands/follow.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/coordinator_client/enum_text.h"
#include "client/coordinator_client/job_states.h"
#include "client/coordinator_client/step_merger.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(100);

// What whoever follows a job must not miss, though the job goes on. Empty: nothing.
std::string WorthTelling(const v1::EventNote& note) {
  if (note.reason() == "CheckpointFailed") return absl::StrCat("checkpoint failed: ", note.message());
  if (note.reason() == "JobResumed") return absl::StrCat("resumed ", note.message());
  return "";
}

}  // namespace

absl::StatusOr<bool> FollowToEnd(JobFeed& feed, JobReport& report, const std::function<bool()>& keep_on) {
  StepMerger merger;
  while (!IsTerminal(feed.status().state())) {
    if (!keep_on()) {
      if (const std::optional<v1::StepEvent> step = merger.Flush()) report.OnStep(*step);
      return false;
    }
    const absl::StatusOr<std::optional<v1::JobEvent>> event = feed.Next(kPoll);
    if (!event.ok()) return event.status();
    if (!event->has_value()) continue;
    const std::vector<v1::StepEvent> steps = merger.Add(**event);
    if (merger.num_missing() > 0) {
      report.OnNote(absl::StrCat(merger.num_missing(), " step(s) are no longer kept, and are not shown"));
    }
    for (const v1::StepEvent& step : steps) report.OnStep(step);
    if (const std::string note = WorthTelling((*event)->note()); !note.empty()) report.OnNote(note);
    if ((*event)->has_status()) report.OnStatus((*event)->status());
  }
  return true;
}

v1::Job DescribeEnded(CoordinatorClient& client, const v1::JobStatus& status) {
  absl::StatusOr<v1::Job> job = client.GetJob(status.job());
  if (job.ok() && IsTerminal(job->status().state())) return *std::move(job);
  v1::Job known;
  *known.mutable_status() = status;
  return known;
}

Failure LostFailure(const absl::Status& why, const std::string& job, const v1::JobStatus& last) {
  if (!absl::IsUnavailable(why)) return ServerFailure(why);
  const std::string seen =
      last.state() == v1::JOB_STATE_UNSPECIFIED
          ? " was not seen"
          : absl::StrCat(" was ", EnumText(last.state()), " at step ", last.step(), " when last seen");
  return {.code = kExitUnreachable,
          .status = absl::UnavailableError(
              absl::StrCat("job state unknown: ", job, seen, "; the coordinator is lost: ", why.message()))};
}

}  // namespace stagecoach
