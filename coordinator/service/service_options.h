#ifndef STAGECOACH_COORDINATOR_SERVICE_SERVICE_OPTIONS_H_
#define STAGECOACH_COORDINATOR_SERVICE_SERVICE_OPTIONS_H_

#include <cstddef>

#include "absl/time/time.h"
#include "common/metrics/metric_registry.h"
#include "coordinator/service/stream_writer.h"

namespace stagecoach {

// How much peers may take of a coordinator.
struct ServiceOptions {
  absl::Duration handshake_timeout = absl::Seconds(5);  // of a connection, and for a session's Hello
  absl::Duration stall_timeout = absl::Seconds(10);     // for a peer to read one message
  absl::Duration check_interval = absl::Milliseconds(100);
  size_t max_streams = 16'384;
  StreamLimits session = {};  // a worker has a handful of messages under way
  StreamLimits follower = {.messages = 1024, .bytes = size_t{4} << 20};
  StreamLimits trace = {.messages = 4096, .bytes = size_t{64} << 20};
  size_t max_client_message_bytes = size_t{4} << 20;
  size_t max_session_message_bytes = size_t{64} << 20;
  int max_requests = 64;              // that wait for the coordinator at a time
  MetricRegistry* metrics = nullptr;  // null: calls are not counted. Outlives the server
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SERVICE_SERVICE_OPTIONS_H_
