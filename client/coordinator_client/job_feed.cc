#include "client/coordinator_client/job_feed.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "client/coordinator_client/job_states.h"

namespace stagecoach {

JobFeed::JobFeed(CoordinatorClient& client, std::string job, Options options)
    : client_(client),
      job_(std::move(job)),
      only_new_(options.only_new),
      stream_(
          {.call = [this] { return std::make_unique<MessageStream<v1::JobEvent>>(client_.FollowJob(NextRequest())); },
           .is_connected = [this] { return client_.IsConnected(); }},
          std::move(options.reconnect)) {}

v1::FollowJobRequest JobFeed::NextRequest() const {
  v1::FollowJobRequest request;
  request.set_job(job_);
  request.set_only_new(only_new_ && !newest_);
  request.set_after_sequence(newest_.value_or(0));
  return request;
}

absl::StatusOr<std::optional<v1::JobEvent>> JobFeed::Next(absl::Duration timeout) {
  if (IsTerminal(status_.state())) return absl::OutOfRangeError("the job has ended");
  absl::StatusOr<std::optional<v1::JobEvent>> event = stream_.Next(timeout);
  if (absl::IsOutOfRange(event.status())) return EndWithoutStatus();
  if (!event.ok() || !event->has_value()) return event;
  const uint64_t sequence = (*event)->sequence();
  if (newest_ && sequence <= *newest_) return std::nullopt;
  newest_ = sequence;
  if ((*event)->has_status()) status_ = (*event)->status();
  if ((*event)->has_step()) status_.set_step(std::max(status_.step(), (*event)->step().step()));
  return event;
}

// The stream may have been resumed after the last event of a job that has ended; the coordinator is asked, since a
// stream's end alone says nothing of the job.
absl::StatusOr<std::optional<v1::JobEvent>> JobFeed::EndWithoutStatus() {
  const absl::StatusOr<v1::Job> job = client_.GetJob(job_);
  if (!job.ok() && !absl::IsUnavailable(job.status())) return job.status();
  if (!job.ok() || !IsTerminal(job->status().state())) {
    stream_.Restart();
    return std::nullopt;
  }
  status_ = job->status();
  v1::JobEvent event;
  event.set_sequence(newest_.value_or(0));
  *event.mutable_time() = job->ended();
  *event.mutable_status() = status_;
  return event;
}

}  // namespace stagecoach
