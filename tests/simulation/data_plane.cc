#include "tests/simulation/data_plane.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace stagecoach::simulation {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(20);  // of an end that cannot be reached

}  // namespace

DataPlane::TransportId DataPlane::Open(const Fence& fence, Owner owner) {
  transports_[++last_id_] = Transport{.fence = fence, .owner = std::move(owner), .peers = {}, .broken = {}};
  return last_id_;
}

void DataPlane::Close(TransportId id, bool silent) {
  Transport& transport = transports_.at(id);
  if (std::exchange(transport.closed, true) || silent) return;
  for (const TransportId peer : transport.peers) {
    if (peer != id) Disconnect(id, peer);
  }
}

// `to` learns that `from` is gone.
void DataPlane::Disconnect(TransportId from, TransportId to) {
  world_.scheduler.After(world_.random.Between(absl::Milliseconds(1), absl::Milliseconds(20)), [this, from, to] {
    Transport& other = transports_.at(to);
    if (other.closed) return;
    other.broken.insert(from);
    other.owner.wake();
  });
}

void DataPlane::Reset(const std::string& worker) {
  for (const auto& [id, transport] : transports_) {
    if (transport.closed || transport.owner.worker != worker) continue;
    for (const TransportId peer : transport.peers) {
      if (peer == id) continue;
      Disconnect(id, peer);
      Disconnect(peer, id);
    }
  }
}

void DataPlane::Isolate(const std::string& worker, bool isolated) {
  if (isolated) {
    isolated_.insert(worker);
  } else {
    isolated_.erase(worker);
  }
}

bool DataPlane::IsReachable(const Transport& transport) const {
  return transport.owner.is_reachable() && !isolated_.contains(transport.owner.worker);
}

bool DataPlane::TryConnect(TransportId id, const v1::ConnectPeers& peers) {
  Transport& transport = transports_.at(id);
  std::vector<TransportId> ids;
  for (const v1::Peer& peer : peers.peers()) {
    TransportId peer_id = 0;
    if (!absl::SimpleAtoi(peer.endpoint(), &peer_id)) return false;
    const auto found = transports_.find(peer_id);
    if (found == transports_.end() || found->second.closed || !IsReachable(found->second)) return false;
    const Fence expected{transport.fence.job, transport.fence.epoch, Incarnation(peer.incarnation())};
    if (found->second.fence != expected) return false;
    ids.push_back(peer_id);
  }
  transport.peers = std::move(ids);
  return true;
}

DataPlane::ChannelKey DataPlane::KeyOf(TransportId id, const v1::ChannelSpec& spec) const {
  const std::vector<TransportId>& peers = transports_.at(id).peers;
  return {peers.at(spec.from_worker_rank()), peers.at(spec.to_worker_rank()), spec.from_stage(), spec.to_stage(),
          static_cast<int>(spec.kind())};
}

DataPlane::Transfer DataPlane::PostSend(TransportId id, const v1::ChannelSpec& spec, const Tag& tag, Payload payload) {
  const ChannelKey key = KeyOf(id, spec);
  Channel& channel = channels_[key];
  channel.sends.push_back({tag, std::move(payload)});
  const Transfer transfer{key, channel.sends.size() - 1, /*is_send=*/true};
  Match(key, transfer.index);
  return transfer;
}

DataPlane::Transfer DataPlane::PostRecv(TransportId id, const v1::ChannelSpec& spec, const Tag& tag) {
  const ChannelKey key = KeyOf(id, spec);
  Channel& channel = channels_[key];
  channel.receives.push_back({tag, {}});
  const Transfer transfer{key, channel.receives.size() - 1, /*is_send=*/false};
  Match(key, transfer.index);
  return transfer;
}

void DataPlane::Match(const ChannelKey& key, size_t index) {
  Channel& channel = channels_.at(key);
  if (index >= channel.sends.size() || index >= channel.receives.size()) return;
  if (channel.sends[index].tag != channel.receives[index].tag) {
    // Where an order came twice, or in another order, the ends disagree.
    if (!world_.hostile) world_.violations.Report("fencing law", "a tensor of another step or micro-batch arrived");
    channel.mismatched.insert(index);
  }
  const Transport& receiver = transports_.at(std::get<1>(key));
  if (lose_next_to_ == receiver.owner.worker) {
    lose_next_to_.reset();
    world_.Touch(receiver.owner.worker);
    world_.Note("a transfer to ", receiver.owner.worker, " is lost");
    return;
  }
  CompleteSoon(key, index, world_.random.Between(absl::Microseconds(50), absl::Milliseconds(2)));
}

void DataPlane::CompleteSoon(const ChannelKey& key, size_t index, absl::Duration delay) {
  world_.scheduler.After(delay, [this, key, index] { Complete(key, index); });
}

void DataPlane::Complete(const ChannelKey& key, size_t index) {
  Transport& from = transports_.at(std::get<0>(key));
  Transport& to = transports_.at(std::get<1>(key));
  if (from.closed || to.closed) return;
  if (!IsReachable(from) || !IsReachable(to)) return CompleteSoon(key, index, kPoll);
  if (from.fence.epoch != to.fence.epoch || from.fence.job != to.fence.job) {
    world_.violations.Report("fencing law", "a tensor crossed from one epoch to another");
  }
  channels_.at(key).complete.insert(index);
  from.owner.wake();
  to.owner.wake();
}

absl::StatusOr<std::optional<Payload>> DataPlane::Check(const Transfer& transfer) const {
  const Channel& channel = channels_.at(transfer.channel);
  if (channel.complete.contains(transfer.index)) {
    if (channel.mismatched.contains(transfer.index)) return absl::InternalError("another tensor has arrived");
    return std::optional(channel.sends[transfer.index].payload);
  }
  const auto [from, to] = std::pair(std::get<0>(transfer.channel), std::get<1>(transfer.channel));
  const Transport& self = transports_.at(transfer.is_send ? from : to);
  if (self.closed) return absl::AbortedError("the transport was aborted");
  if (self.broken.contains(transfer.is_send ? to : from)) return absl::UnavailableError("the peer is gone");
  return std::optional<Payload>();
}

}  // namespace stagecoach::simulation
