#ifndef STAGECOACH_TESTS_SIMULATION_FOLLOW_STREAM_H_
#define STAGECOACH_TESTS_SIMULATION_FOLLOW_STREAM_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "stagecoach/v1/coordinator.pb.h"
#include "tests/simulation/world.h"

namespace stagecoach::simulation {

// A stream of events from the coordinator to a client: first in, first out, until it breaks, which loses its tail.
class FollowStream : public std::enable_shared_from_this<FollowStream> {
 public:
  struct Reader {
    std::function<void(const v1::JobEvent&)> on_event;
    std::function<void(const absl::Status&)> on_end;  // once, the last call
  };
  FollowStream(World& world, Reader reader) : world_(world), reader_(std::move(reader)) {}

  absl::Status Send(const v1::JobEvent& event) {
    if (broken_) return absl::UnavailableError("the stream is broken");
    Schedule([this, event] {
      if (!broken_) reader_.on_event(event);
    });
    return absl::OkStatus();
  }
  void End(const absl::Status& why) {
    Schedule([this, why] {
      if (!std::exchange(broken_, true)) reader_.on_end(why);
    });
  }
  void Break() {
    if (std::exchange(broken_, true)) return;
    Schedule([this] { reader_.on_end(absl::UnavailableError("the connection was reset")); });
  }

 private:
  void Schedule(std::function<void()> arrive) {
    const absl::Duration latency = world_.random.Between(absl::Microseconds(50), absl::Milliseconds(5));
    last_arrival_ = std::max(world_.now() + latency, last_arrival_ + absl::Microseconds(1));
    world_.scheduler.After(last_arrival_ - world_.now(),
                           [self = shared_from_this(), arrive = std::move(arrive)] { arrive(); });
  }

  World& world_;
  const Reader reader_;
  bool broken_ = false;
  absl::Duration last_arrival_;
};

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_FOLLOW_STREAM_H_
