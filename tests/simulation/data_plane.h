#ifndef STAGECOACH_TESTS_SIMULATION_DATA_PLANE_H_
#define STAGECOACH_TESTS_SIMULATION_DATA_PLANE_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "stagecoach/v1/program.pb.h"
#include "stagecoach/v1/worker.pb.h"
#include "tests/simulation/world.h"

namespace stagecoach::simulation {

// What a transfer is of: the receiver checks it.
struct Tag {
  uint64_t step = 0;
  bool evaluation = false;
  uint64_t first_sample = 0;
  uint32_t micro_batch = 0;
  auto operator<=>(const Tag&) const = default;
};

// What a transfer carries: a number for each tensor.
using Payload = std::vector<uint64_t>;

// The transports of all workers. A transfer ends when both ends have posted it; it fails when one of them is closed,
// and the other learns of that.
class DataPlane {
 public:
  using TransportId = uint64_t;
  // What the data plane asks of the worker that a transport belongs to.
  struct Owner {
    std::string worker;
    std::function<bool()> is_reachable;  // its host is connected, and its process runs
    std::function<void()> wake;          // something that it may wait for has changed
  };
  struct Fence {
    JobId job;
    Epoch epoch;
    Incarnation incarnation;
    bool operator==(const Fence&) const = default;
  };

  explicit DataPlane(World& world) : world_(world) {}

  TransportId Open(const Fence& fence, Owner owner);
  // `silent`: its peers are not told.
  void Close(TransportId id, bool silent);

  // True: the transports of all peers are there, of the same job and epoch. False: not yet.
  bool TryConnect(TransportId id, const v1::ConnectPeers& peers);

  // One end of the next transfer on a channel; how it is called from now on.
  struct Transfer {
    std::tuple<TransportId, TransportId, uint32_t, uint32_t, int> channel;
    size_t index = 0;
    bool is_send = false;
  };
  Transfer PostSend(TransportId id, const v1::ChannelSpec& spec, const Tag& tag, Payload payload);
  Transfer PostRecv(TransportId id, const v1::ChannelSpec& spec, const Tag& tag);
  // nullopt: not complete. UNAVAILABLE: the peer is gone. INTERNAL: the ends have posted different things. What was
  // sent, for both ends.
  absl::StatusOr<std::optional<Payload>> Check(const Transfer& transfer) const;

  // All connections of the worker break, and both ends learn of it.
  void Reset(const std::string& worker);
  // Nothing that is not complete completes until it is lifted.
  void Isolate(const std::string& worker, bool isolated);
  // The next transfer to this worker never ends.
  void LoseNextTo(const std::string& worker) { lose_next_to_ = worker; }

 private:
  struct Transport {
    Fence fence;
    Owner owner;
    std::vector<TransportId> peers;  // by worker rank, itself included; empty: not connected
    std::set<TransportId> broken;    // peers that it knows to be gone
    bool closed = false;
  };
  struct Post {
    Tag tag;
    Payload payload;
  };
  struct Channel {
    std::vector<Post> sends, receives;
    std::set<size_t> complete;
    std::set<size_t> mismatched;
  };
  using ChannelKey = std::tuple<TransportId, TransportId, uint32_t, uint32_t, int>;  // from, to, from stage, to, kind

  void Disconnect(TransportId from, TransportId to);
  bool IsReachable(const Transport& transport) const;
  ChannelKey KeyOf(TransportId id, const v1::ChannelSpec& spec) const;
  void Match(const ChannelKey& key, size_t index);
  void CompleteSoon(const ChannelKey& key, size_t index, absl::Duration delay);
  void Complete(const ChannelKey& key, size_t index);

  World& world_;
  TransportId last_id_ = 0;
  std::map<TransportId, Transport> transports_;
  std::map<ChannelKey, Channel> channels_;
  std::optional<std::string> lose_next_to_;
  std::set<std::string> isolated_;  // workers
};

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_DATA_PLANE_H_
