#include "tests/simulation/network.h"

#include <algorithm>
#include <utility>

namespace stagecoach::simulation {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(20);           // of a host that is cut off
constexpr absl::Duration kLongestNotice = absl::Milliseconds(60);  // of a reset
constexpr size_t kOldMessages = 24;

template <typename Message>
void Remember(const Message& message, std::deque<Message>& old) {
  if (old.size() == kOldMessages) old.pop_front();
  old.push_back(message);
}

absl::Status SessionIsOver() { return absl::UnavailableError("the session is over"); }

}  // namespace

absl::Status Connection::SendToCoordinator(v1::WorkerMessage message) {
  if (to_worker_.end_knows) return SessionIsOver();
  Remember(message, network_.old_to_coordinator_[worker_]);
  Send(to_coordinator_, std::move(message));
  return absl::OkStatus();
}

absl::Status Connection::SendToWorker(v1::CoordinatorMessage message) {
  if (to_coordinator_.end_knows) return SessionIsOver();
  Remember(message, network_.old_to_worker_[worker_]);
  Send(to_worker_, std::move(message));
  return absl::OkStatus();
}

void Connection::CloseByWorker(const absl::Status& why) {
  to_worker_.end_knows = true;
  Close(to_coordinator_, why);
}

void Connection::CloseByCoordinator(const absl::Status& why) {
  to_coordinator_.end_knows = true;
  Close(to_worker_, why);
}

void Connection::Break(bool silent) {
  if (std::exchange(broken_, true)) return;
  broken_silently_ = silent;
  Cut(to_coordinator_, silent);
  Cut(to_worker_, silent);
}

template <typename Message>
void Connection::Cut(Direction<Message>& direction, bool silent) {
  World& world = network_.world_;
  direction.cut = world.now() + world.random.Between(absl::ZeroDuration(), absl::Milliseconds(10));
  if (silent) return;
  const absl::Duration notice =
      direction.cut - world.now() + world.random.Between(absl::ZeroDuration(), kLongestNotice);
  world.scheduler.After(notice, [self = shared_from_this(), &direction] {
    self->End(direction, absl::UnavailableError("the connection was reset"));
  });
}

template <typename Message>
void Connection::End(Direction<Message>& direction, const absl::Status& why) {
  if (std::exchange(direction.end_knows, true)) return;
  direction.end.on_end(why);
}

template <typename Message>
void Connection::Close(Direction<Message>& direction, const absl::Status& why) {
  if (direction.end_knows || direction.last.has_value()) return;
  direction.last = why;
  ScheduleArrival(direction);
}

template <typename Message>
void Connection::Send(Direction<Message>& direction, Message message) {
  if (direction.last.has_value()) return;
  if (network_.tampers_) return SendHostile(direction, std::move(message));
  direction.under_way.push_back(std::move(message));
  ScheduleArrival(direction);
}

template <typename Message>
void Connection::ScheduleArrival(Direction<Message>& direction) {
  World& world = network_.world_;
  direction.last_arrival = std::max(world.now() + network_.Latency(), direction.last_arrival + absl::Microseconds(1));
  world.scheduler.After(direction.last_arrival - world.now(),
                        [self = shared_from_this(), &direction] { self->Arrive(direction); });
}

// The turn of the message that is first in line, or of what comes after the last.
template <typename Message>
void Connection::Arrive(Direction<Message>& direction) {
  World& world = network_.world_;
  if (network_.IsIsolated(host_) && world.now() < direction.cut) {
    world.scheduler.After(kPoll, [self = shared_from_this(), &direction] { self->Arrive(direction); });
    return;
  }
  if (world.now() >= direction.cut) return direction.under_way.clear();
  if (direction.under_way.empty()) {
    if (direction.last.has_value()) End(direction, *direction.last);
    return;
  }
  Message message = std::move(direction.under_way.front());
  direction.under_way.pop_front();
  DeliverOnce(direction, std::move(message));
}

template <typename Message>
void Connection::DeliverOnce(Direction<Message>& direction, Message message) {
  if (direction.end_knows || network_.world_.now() >= direction.cut) return;
  direction.end.on_message(std::move(message));
}

namespace {

const std::deque<v1::WorkerMessage>& OldOf(const std::map<std::string, std::deque<v1::WorkerMessage>>& to_coordinator,
                                           const std::map<std::string, std::deque<v1::CoordinatorMessage>>&,
                                           const std::string& worker, const v1::WorkerMessage&) {
  return to_coordinator.at(worker);
}
const std::deque<v1::CoordinatorMessage>& OldOf(
    const std::map<std::string, std::deque<v1::WorkerMessage>>&,
    const std::map<std::string, std::deque<v1::CoordinatorMessage>>& to_worker, const std::string& worker,
    const v1::CoordinatorMessage&) {
  return to_worker.at(worker);
}

bool Opens(const v1::WorkerMessage& message) { return message.has_hello(); }
bool Opens(const v1::CoordinatorMessage& message) { return message.has_welcome(); }

}  // namespace

template <typename Message>
void Connection::SendHostile(Direction<Message>& direction, Message message) {
  World& world = network_.world_;
  const auto deliver = [&](Message copy, absl::Duration longest) {
    world.scheduler.After(world.random.Between(absl::Microseconds(50), longest),
                          [self = shared_from_this(), &direction, copy = std::move(copy)]() mutable {
                            self->DeliverOnce(direction, std::move(copy));
                          });
  };
  const uint64_t luck = world.random.Below(100);
  if (luck >= 12 || Opens(message)) {
    direction.under_way.push_back(std::move(message));
    return ScheduleArrival(direction);
  }
  world.Touch(worker_);
  damaged_ = true;
  if (luck < 3) return;
  if (luck < 6) deliver(message, absl::Seconds(2));
  if (luck < 8) {
    const auto& old = OldOf(network_.old_to_coordinator_, network_.old_to_worker_, worker_, message);
    deliver(old[world.random.Below(old.size())], absl::Milliseconds(20));
  }
  deliver(std::move(message), absl::Seconds(1));
}

std::shared_ptr<Connection> Network::Dial(const std::string& worker, const std::string& host,
                                          ConnectionEnd<v1::CoordinatorMessage> end) {
  auto connection = std::make_shared<Connection>(*this, worker, host);
  connection->to_worker_.end = std::move(end);
  ConnectionEnd<v1::WorkerMessage> other_end;
  if (listener_ && !IsIsolated(host)) other_end = listener_(connection);
  if (!other_end.on_message) {
    world_.scheduler.After(
        Latency(), [connection] { connection->End(connection->to_worker_, absl::UnavailableError("nobody answers")); });
    connection->to_coordinator_.end_knows = true;
    return connection;
  }
  connection->to_coordinator_.end = std::move(other_end);
  connections_.erase(
      std::remove_if(connections_.begin(), connections_.end(), [](const auto& weak) { return weak.expired(); }),
      connections_.end());
  connections_.push_back(connection);
  return connection;
}

void Network::Isolate(const std::string& host, bool isolated) {
  if (isolated) {
    isolated_.insert(host);
  } else {
    isolated_.erase(host);
  }
}

bool Network::HasDeafSession(const std::string& host) const {
  return std::any_of(connections_.begin(), connections_.end(), [&](const auto& weak) {
    const std::shared_ptr<Connection> connection = weak.lock();
    return connection != nullptr && connection->host() == host && connection->broken_silently_ &&
           !connection->to_coordinator_.end_knows;
  });
}

void Network::Break(const std::string& host, bool silent) {
  for (const auto& weak : connections_) {
    const std::shared_ptr<Connection> connection = weak.lock();
    if (connection != nullptr && (host.empty() || connection->host() == host)) connection->Break(silent);
  }
}

void Network::BreakDamaged() {
  for (const auto& weak : connections_) {
    const std::shared_ptr<Connection> connection = weak.lock();
    if (connection != nullptr && connection->damaged_) connection->Break(/*silent=*/false);
  }
}

absl::Duration Network::Latency() { return world_.random.Between(absl::Microseconds(50), absl::Milliseconds(3)); }

}  // namespace stagecoach::simulation
