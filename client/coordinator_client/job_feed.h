#ifndef STAGECOACH_CLIENT_COORDINATOR_CLIENT_JOB_FEED_H_
#define STAGECOACH_CLIENT_COORDINATOR_CLIENT_JOB_FEED_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/coordinator_client/coordinator_client.h"
#include "client/coordinator_client/reconnecting_stream.h"
#include "stagecoach/v1/coordinator.pb.h"

namespace stagecoach {

// The events of a job, each once and in order, over breaks and a coordinator's restarts. Ends after the status of the
// job's end, and then only. Used by one thread.
class JobFeed {
 public:
  struct Options {
    // The current status, then what happens; otherwise from the first event that is kept.
    bool only_new = false;
    ReconnectOptions reconnect = {};
  };
  JobFeed(CoordinatorClient& client, std::string job, Options options);

  // Nothing: no event within `timeout`, also while there is no connection. OUT_OF_RANGE: the job's end has been given.
  // UNAVAILABLE: no coordinator for longer than the options have it; what became of the job is not known. NOT_FOUND.
  absl::StatusOr<std::optional<v1::JobEvent>> Next(absl::Duration timeout);

  // The newest that was given, with the newest step.
  const v1::JobStatus& status() const { return status_; }

 private:
  v1::FollowJobRequest NextRequest() const;
  absl::StatusOr<std::optional<v1::JobEvent>> EndWithoutStatus();

  CoordinatorClient& client_;
  const std::string job_;
  const bool only_new_;
  ReconnectingStream<v1::JobEvent> stream_;
  std::optional<uint64_t> newest_;  // sequence that was given
  v1::JobStatus status_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COORDINATOR_CLIENT_JOB_FEED_H_
