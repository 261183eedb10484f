#ifndef STAGECOACH_TESTS_SIMULATION_NETWORK_H_
#define STAGECOACH_TESTS_SIMULATION_NETWORK_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "stagecoach/v1/worker.pb.h"
#include "tests/simulation/world.h"

namespace stagecoach::simulation {

// What one end of a session is told. Calls come in the order in which things arrive; after `on_end`, none.
template <typename Message>
struct ConnectionEnd {
  std::function<void(Message)> on_message;
  std::function<void(const absl::Status&)> on_end;
};

class Network;

// One stream between a worker and a coordinator. Each direction is first in, first out, until the network breaks it:
// then the last part of both is lost, and the ends learn of it at different times, or not at all. Both ends hold it.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Network& network, std::string worker, std::string host)
      : network_(network), worker_(std::move(worker)), host_(std::move(host)) {}

  // UNAVAILABLE: this end knows that the session is over.
  absl::Status SendToCoordinator(v1::WorkerMessage message);
  absl::Status SendToWorker(v1::CoordinatorMessage message);
  // The other end gets what was sent before, and then `why`.
  void CloseByWorker(const absl::Status& why);
  void CloseByCoordinator(const absl::Status& why);
  // `silent`: as when a host is gone; nobody is told.
  void Break(bool silent);

  const std::string& host() const { return host_; }

 private:
  friend class Network;
  // Messages on their way to one end.
  template <typename Message>
  struct Direction {
    ConnectionEnd<Message> end;
    bool end_knows = false;  // that the session is over
    std::deque<Message> under_way;
    std::optional<absl::Status> last;  // comes after them: the other end closed
    absl::Duration last_arrival;
    absl::Duration cut = absl::InfiniteDuration();  // what arrives later is lost
  };

  template <typename Message>
  void Send(Direction<Message>& direction, Message message);
  template <typename Message>
  void Arrive(Direction<Message>& direction);
  template <typename Message>
  void DeliverOnce(Direction<Message>& direction, Message message);
  template <typename Message>
  void Close(Direction<Message>& direction, const absl::Status& why);
  template <typename Message>
  void Cut(Direction<Message>& direction, bool silent);
  template <typename Message>
  void End(Direction<Message>& direction, const absl::Status& why);
  template <typename Message>
  void ScheduleArrival(Direction<Message>& direction);
  template <typename Message>
  void SendHostile(Direction<Message>& direction, Message message);

  Network& network_;
  const std::string worker_;
  const std::string host_;
  bool broken_ = false;
  bool broken_silently_ = false;
  bool damaged_ = false;  // a hostile network has lost, repeated or moved something of it
  Direction<v1::WorkerMessage> to_coordinator_;
  Direction<v1::CoordinatorMessage> to_worker_;
};

// Everything between workers and coordinator. Faults are switched on and off by whoever plans them.
class Network {
 public:
  // Takes what a worker dials; null: nobody listens.
  using Listener = std::function<ConnectionEnd<v1::WorkerMessage>(const std::shared_ptr<Connection>&)>;

  explicit Network(World& world) : world_(world) {}

  std::shared_ptr<Connection> Dial(const std::string& worker, const std::string& host,
                                   ConnectionEnd<v1::CoordinatorMessage> end);
  void Listen(Listener listener) { listener_ = std::move(listener); }

  // Nothing from or to the host arrives until it is lifted; nothing is lost by it.
  void Isolate(const std::string& host, bool isolated);
  bool IsIsolated(const std::string& host) const { return isolated_.contains(host); }
  // The coordinator has a session with the host that nothing comes over any more, not even its end.
  bool HasDeafSession(const std::string& host) const;
  // From now on single messages are lost, repeated, delayed, reordered, and old ones come again.
  void Tamper(bool tampers) { tampers_ = tampers; }
  // Breaks the sessions of a host (empty: of all).
  void Break(const std::string& host, bool silent);
  // Ends the sessions that a hostile network has damaged: as a real one would.
  void BreakDamaged();
  absl::Duration Latency();

 private:
  friend class Connection;

  World& world_;
  Listener listener_;
  std::vector<std::weak_ptr<Connection>> connections_;
  std::set<std::string> isolated_;
  bool tampers_ = false;
  // What was sent on earlier sessions, for a hostile network to say again.
  std::map<std::string, std::deque<v1::WorkerMessage>> old_to_coordinator_;
  std::map<std::string, std::deque<v1::CoordinatorMessage>> old_to_worker_;
};

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_NETWORK_H_
