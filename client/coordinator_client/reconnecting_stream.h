#ifndef STAGECOACH_CLIENT_COORDINATOR_CLIENT_RECONNECTING_STREAM_H_
#define STAGECOACH_CLIENT_COORDINATOR_CLIENT_RECONNECTING_STREAM_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/coordinator_client/message_stream.h"
#include "common/backoff.h"
#include "common/clock.h"

namespace stagecoach {

struct ReconnectOptions {
  absl::Duration timeout = absl::Seconds(60);  // how long the coordinator may be gone
  // At the beginning of each outage.
  std::function<void(const absl::Status& why)> on_outage = [](const absl::Status&) {};
};

// What a stream that reconnects needs of the world.
template <typename Message>
struct StreamSource {
  std::function<std::unique_ptr<StreamCall<Message>>()> call;  // the next one, from the newest resume token
  std::function<bool()> is_connected;
  const Clock& clock = Clock::Real();
  std::function<void(absl::Duration)> sleep = absl::SleepFor;
  uint64_t seed = std::random_device()();  // of the waits between attempts
};

// A stream over any number of calls: one that breaks is followed by another, from where its owner has come to. Used by
// one thread.
template <typename Message>
class ReconnectingStream {
 public:
  ReconnectingStream(StreamSource<Message> source, ReconnectOptions options)
      : source_(std::move(source)), options_(std::move(options)) {}

  // Nothing: no message within `timeout`. OUT_OF_RANGE: the coordinator ended the stream with OK. UNAVAILABLE: no
  // coordinator for longer than the options have it. Any other error is the coordinator's, and stays.
  absl::StatusOr<std::optional<Message>> Next(absl::Duration timeout) {
    const absl::Duration deadline = clock_.Now() + timeout;
    do {
      if (stream_ == nullptr && !Open(deadline)) break;
      absl::StatusOr<std::optional<Message>> message = stream_->Next(std::min(kPoll, deadline - clock_.Now()));
      if (message.ok() && message->has_value()) {
        TakeForGood();
        return message;
      }
      if (!message.ok() && !MayPass(message.status())) return message;
      if (!message.ok()) Break(message.status());
      if (IsBack()) TakeForGood();
      if (IsLost()) return absl::UnavailableError(last_error_.message());
    } while (clock_.Now() < deadline);
    return std::nullopt;
  }

  // A call that has ended with OK is followed by another after all.
  void Restart() {
    stream_.reset();
    next_attempt_ = clock_.Now() + backoff_.Next();
  }

 private:
  static constexpr absl::Duration kPoll = absl::Milliseconds(100);
  static constexpr absl::Duration kSteady = absl::Seconds(1);

  // What a coordinator that stops, restarts or finds its reader too slow makes of a stream, also by way of the library.
  static bool MayPass(const absl::Status& status) {
    switch (status.code()) {
      case absl::StatusCode::kUnavailable:
      case absl::StatusCode::kResourceExhausted:
      case absl::StatusCode::kDeadlineExceeded:
      case absl::StatusCode::kCancelled:
      case absl::StatusCode::kAborted:
      case absl::StatusCode::kInternal:
      case absl::StatusCode::kUnknown:
        return true;
      default:
        return false;
    }
  }

  // False: the time of the next attempt is after `deadline`, until which this has waited.
  bool Open(absl::Duration deadline) {
    source_.sleep(std::min(next_attempt_, deadline) - clock_.Now());
    if (clock_.Now() < next_attempt_) return false;
    stream_ = source_.call();
    opened_ = clock_.Now();
    return true;
  }

  void Break(const absl::Status& why) {
    last_error_ = why;
    if (!lost_since_) {
      lost_since_ = clock_.Now();
      options_.on_outage(why);
    }
    Restart();
  }

  void TakeForGood() {
    lost_since_.reset();
    backoff_.Reset();
  }

  // A quiet stream says nothing; one that has held for a while on a channel that is up is taken for good.
  bool IsBack() const { return stream_ != nullptr && source_.is_connected() && clock_.Now() - opened_ > kSteady; }
  bool IsLost() const { return lost_since_ && clock_.Now() - *lost_since_ >= options_.timeout; }

  const StreamSource<Message> source_;
  const ReconnectOptions options_;
  const Clock& clock_ = source_.clock;
  Backoff backoff_{{}, source_.seed};
  std::unique_ptr<StreamCall<Message>> stream_;
  absl::Duration opened_;
  absl::Duration next_attempt_ = absl::ZeroDuration();
  std::optional<absl::Duration> lost_since_;
  absl::Status last_error_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COORDINATOR_CLIENT_RECONNECTING_STREAM_H_
