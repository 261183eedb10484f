#ifndef STAGECOACH_CLIENT_COORDINATOR_CLIENT_LOG_FEED_H_
#define STAGECOACH_CLIENT_COORDINATOR_CLIENT_LOG_FEED_H_

#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/coordinator_client/coordinator_client.h"
#include "client/coordinator_client/reconnecting_stream.h"
#include "stagecoach/v1/coordinator.pb.h"

namespace stagecoach {

// Lines of a job's workers, each once and in order, over breaks. Lines that only a coordinator that is gone had are
// lost. Used by one thread.
class LogFeed {
 public:
  LogFeed(CoordinatorClient& client, v1::FollowLogsRequest request, ReconnectOptions options);

  // Nothing: no line within `timeout`. OUT_OF_RANGE: there are no more. UNAVAILABLE, NOT_FOUND: as JobFeed has them.
  absl::StatusOr<std::optional<v1::LogRecord>> Next(absl::Duration timeout);

 private:
  CoordinatorClient& client_;
  v1::FollowLogsRequest request_;
  ReconnectingStream<v1::LogRecord> stream_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COORDINATOR_CLIENT_LOG_FEED_H_
