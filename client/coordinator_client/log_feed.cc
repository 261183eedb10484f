#include "client/coordinator_client/log_feed.h"

#include <memory>
#include <utility>

namespace stagecoach {

LogFeed::LogFeed(CoordinatorClient& client, v1::FollowLogsRequest request, ReconnectOptions options)
    : client_(client),
      request_(std::move(request)),
      stream_({.call = [this] { return std::make_unique<MessageStream<v1::LogRecord>>(client_.FollowLogs(request_)); },
               .is_connected = [this] { return client_.IsConnected(); }},
              std::move(options)) {}

absl::StatusOr<std::optional<v1::LogRecord>> LogFeed::Next(absl::Duration timeout) {
  absl::StatusOr<std::optional<v1::LogRecord>> record = stream_.Next(timeout);
  if (record.ok() && record->has_value()) {
    *request_.mutable_after() = (*record)->token();
    request_.set_tail(0);  // was for the first call: what comes after the token is wanted whole
  }
  return record;
}

}  // namespace stagecoach
