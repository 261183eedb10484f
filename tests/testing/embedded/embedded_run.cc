#include "tests/testing/embedded/embedded_run.h"

#include <utility>

#include "absl/memory/memory.h"
#include "common/status_macros.h"

namespace stagecoach {
absl::StatusOr<std::unique_ptr<EmbeddedRun>> EmbeddedRun::Start(const v1::JobSpec& spec, Options options) {
  auto run = absl::WrapUnique(new EmbeddedRun());
  STAGECOACH_ASSIGN_OR_RETURN(run->cluster_, EmbeddedCluster::Create(std::move(options)));
  STAGECOACH_RETURN_IF_ERROR(run->Submit(spec));
  STAGECOACH_RETURN_IF_ERROR(run->cluster_->StartWorkers(spec.resources().threads_per_worker()));
  return run;
}

// The follower is there before any worker is, so that it misses no step.
absl::Status EmbeddedRun::Submit(const v1::JobSpec& spec) {
  v1::SubmitJobRequest submission;
  *submission.mutable_spec() = spec;
  submission.mutable_spec()->mutable_resources()->set_workers(cluster_->num_workers());
  STAGECOACH_ASSIGN_OR_RETURN(job_, cluster_->coordinator().SubmitJob(submission));
  v1::FollowJobRequest request;
  request.set_job(job_.value());
  const auto push = [events = events_](absl::StatusOr<v1::JobEvent> event) {
    const absl::Status pushed = events->Push(std::move(event));
    if (!pushed.ok()) events->Close();  // a reader that far behind is told that events are missing
    return pushed;
  };
  return cluster_->coordinator()
      .FollowJob(request, {.on_event = push,
                           .on_end =
                               [push](const absl::Status& status) {
                                 if (!status.ok()) push(status).IgnoreError();
                               }})
      .status();
}

// A step that announces its validation loss is held back for it, or for what comes in its stead.
absl::StatusOr<FollowEvent> EmbeddedRun::NextEvent(absl::Duration timeout) {
  if (next_.has_value()) return *std::exchange(next_, std::nullopt);
  while (true) {
    STAGECOACH_ASSIGN_OR_RETURN(const absl::StatusOr<v1::JobEvent> event, events_->Pop(timeout));
    std::optional<FollowEvent> found;
    if (!event.ok()) {
      found = event.status();
    } else if (event->has_status()) {
      found = event->status();
    } else if (event->has_validation() && held_step_.has_value()) {
      held_step_->set_validation_loss(event->validation().loss());
      return FollowEvent(*std::exchange(held_step_, std::nullopt));
    } else if (event->has_step()) {
      if (event->step().validation_follows() && !held_step_.has_value()) {
        held_step_ = event->step();
        continue;
      }
      found = event->step();
    }
    if (!found.has_value()) continue;
    if (!held_step_.has_value()) return *std::move(found);
    next_ = std::move(found);
    return FollowEvent(*std::exchange(held_step_, std::nullopt));
  }
}

absl::Status EmbeddedRun::Cancel() { return cluster_->coordinator().CancelJob(job_); }

absl::StatusOr<v1::Job> EmbeddedRun::Describe() { return cluster_->coordinator().DescribeJob(job_); }

}  // namespace stagecoach
