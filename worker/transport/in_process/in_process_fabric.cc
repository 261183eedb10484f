#include "worker/transport/in_process/in_process_fabric.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"
#include "worker/transport/transport_errors.h"

namespace stagecoach {
namespace {

constexpr char kEndpointPrefix[] = "in_process/";

absl::StatusOr<InProcessFabric::MemberId> MemberOf(const std::string& endpoint) {
  absl::string_view text = endpoint;
  uint64_t member = 0;
  if (!absl::ConsumePrefix(&text, kEndpointPrefix) || !absl::SimpleAtoi(text, &member) || member == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", endpoint, "\" is not an endpoint of the in-process transport"));
  }
  return member;
}

}  // namespace

InProcessFabric::MemberId InProcessFabric::Join(const TransportFence& fence, WorkerRank rank) {
  MutexLock lock(mutex_);
  const MemberId member = next_member_++;
  members_[member] = Member{.fence = fence, .rank = rank, .gone = absl::OkStatus(), .peers = {}};
  return member;
}

std::string InProcessFabric::EndpointOf(MemberId member) { return absl::StrCat(kEndpointPrefix, member); }

absl::Status InProcessFabric::Connect(MemberId member, std::span<const TransportPeer> peers, absl::Duration timeout) {
  const auto deadline = DeadlineIn(timeout);
  MutexLock lock(mutex_);
  Member& self = members_.at(member);
  STAGECOACH_RETURN_IF_ERROR(self.gone);
  if (!self.peers.empty()) return absl::FailedPreconditionError("the transport is connected already");
  std::vector<MemberId> ids;
  STAGECOACH_RETURN_IF_ERROR(CheckPeers(self, member, peers, ids));
  self.peers = std::move(ids);
  changed_.NotifyAll();
  bool expired = false;
  while (true) {
    STAGECOACH_RETURN_IF_ERROR(self.gone);
    std::string missing;
    for (uint32_t rank = 0; rank < peers.size(); ++rank) {
      STAGECOACH_ASSIGN_OR_RETURN(const bool connected, HasConnected(self, WorkerRank(rank), peers[rank]));
      if (!connected) absl::StrAppend(&missing, missing.empty() ? "" : ", ", rank);
    }
    if (missing.empty()) return absl::OkStatus();
    if (expired) {
      return MissingPeersError(self.rank, missing, timeout);
    }
    expired = !changed_.WaitUntil(mutex_, deadline);
  }
}

absl::Status InProcessFabric::CheckPeers(const Member& member, MemberId id, std::span<const TransportPeer> peers,
                                         std::vector<MemberId>& ids) const {
  for (const TransportPeer& peer : peers) {
    STAGECOACH_ASSIGN_OR_RETURN(const MemberId peer_id, MemberOf(peer.endpoint));
    ids.push_back(peer_id);
  }
  if (member.rank.value() < ids.size() && ids[member.rank.value()] == id) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the list of ", peers.size(), " peers does not have ", EndpointOf(id),
                                                 " at worker rank ", member.rank.value()));
}

absl::StatusOr<bool> InProcessFabric::HasConnected(const Member& member, WorkerRank rank,
                                                   const TransportPeer& expected) const {
  const MemberId id = member.peers[rank.value()];
  if (id >= next_member_) return false;
  STAGECOACH_RETURN_IF_ERROR(CheckAlive(member, rank));
  const Member& peer = members_.at(id);
  const TransportFence fence{member.fence.job, member.fence.epoch, expected.incarnation};
  if (peer.fence.job != fence.job || peer.fence.epoch != fence.epoch || peer.fence.incarnation != fence.incarnation ||
      peer.rank != rank) {
    return WrongPeerError(rank, peer.fence, peer.rank, fence);
  }
  return !peer.peers.empty();
}

absl::Status InProcessFabric::CheckAlive(const Member& member, WorkerRank rank) const {
  const auto peer = members_.find(member.peers[rank.value()]);
  if (peer == members_.end()) return PeerGoneError(rank, "its transport was destroyed");
  return peer->second.gone.ok() ? absl::OkStatus() : PeerGoneError(rank, peer->second.gone.message());
}

absl::StatusOr<InProcessFabric::OpenedEdge> InProcessFabric::Open(MemberId member, const v1::ChannelSpec& spec) {
  MutexLock lock(mutex_);
  const Member& self = members_.at(member);
  STAGECOACH_RETURN_IF_ERROR(self.gone);
  if (self.peers.empty()) return absl::FailedPreconditionError("channels are opened after Connect");
  const WorkerRank from(spec.from_worker_rank());
  const WorkerRank to(spec.to_worker_rank());
  if ((from != self.rank && to != self.rank) || from.value() >= self.peers.size() || to.value() >= self.peers.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(ChannelText(spec), ": not of worker rank ", self.rank.value(), " of ", self.peers.size()));
  }
  if (from != self.rank) STAGECOACH_RETURN_IF_ERROR(CheckAlive(self, from));
  if (to != self.rank) STAGECOACH_RETURN_IF_ERROR(CheckAlive(self, to));
  return OpenBetween(member, self.peers[from.value()], self.peers[to.value()], spec);
}

absl::StatusOr<InProcessFabric::OpenedEdge> InProcessFabric::OpenBetween(MemberId member, MemberId from, MemberId to,
                                                                         const v1::ChannelSpec& spec) {
  auto& edge = edges_[EdgeKey(from, to, spec.from_stage(), spec.to_stage(), spec.kind())];
  if (edge == nullptr) edge = std::make_shared<InProcessEdge>(ChannelText(spec), clock_);
  OpenedEdge opened{.edge = edge, .is_sender = from == member, .is_receiver = to == member};
  if (opened.is_sender) STAGECOACH_RETURN_IF_ERROR(edge->Open(EdgeEnd::kSender, spec.num_slots()));
  if (opened.is_receiver) STAGECOACH_RETURN_IF_ERROR(edge->Open(EdgeEnd::kReceiver, spec.num_slots()));
  return opened;
}

void InProcessFabric::Abort(MemberId member, const absl::Status& reason) {
  struct Failure {
    std::shared_ptr<InProcessEdge> edge;
    bool is_sender, is_receiver;
  };
  std::vector<Failure> failures;
  absl::Status first_reason;
  absl::Status peers_reason;
  {
    MutexLock lock(mutex_);
    Member& self = members_.at(member);
    if (self.gone.ok()) self.gone = reason;
    first_reason = self.gone;
    peers_reason = PeerGoneError(self.rank, self.gone.message());
    for (const auto& [key, edge] : edges_) {
      const bool is_sender = std::get<0>(key) == member;
      const bool is_receiver = std::get<1>(key) == member;
      if (is_sender || is_receiver) failures.push_back({edge, is_sender, is_receiver});
    }
    changed_.NotifyAll();
  }
  for (const Failure& failure : failures) {
    failure.edge->Fail(failure.is_sender ? first_reason : peers_reason,
                       failure.is_receiver ? first_reason : peers_reason);
  }
}

void InProcessFabric::Leave(MemberId member) {
  MutexLock lock(mutex_);
  members_.erase(member);
  for (auto edge = edges_.begin(); edge != edges_.end();) {
    const bool is_mine = std::get<0>(edge->first) == member || std::get<1>(edge->first) == member;
    edge = is_mine ? edges_.erase(edge) : std::next(edge);
  }
}

}  // namespace stagecoach
