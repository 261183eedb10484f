#include "worker/transport/ucx/ucx_peers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "worker/transport/transport_errors.h"
#include "worker/transport/ucx/ucx_mode.h"

namespace stagecoach {
namespace {

// Bounds what strangers can make this process remember.
constexpr size_t kMostEarlyHellos = 4096;
// Each keeps a connection until this transport ends.
constexpr size_t kMostStrangers = 64;
// Of strangers. Not found among the peers, so nothing is done when a connection to one fails.
constexpr WorkerRank kNoRank(~uint32_t{0});

}  // namespace

UcxPeers::UcxPeers(const TransportFence& fence, WorkerRank rank, UcxEndpoint self, UcxWorker& worker)
    : fence_(fence), rank_(rank), self_(std::move(self)), worker_(worker) {}

absl::Status UcxPeers::Start(std::span<const TransportPeer> list) {
  if (started_) return absl::FailedPreconditionError("the transport is connected already");
  STAGECOACH_RETURN_IF_ERROR(Parse(list));
  started_ = true;
  for (UcxPeer& peer : peers_) {
    if (peer.rank != rank_) STAGECOACH_RETURN_IF_ERROR(Connect(peer));
  }
  for (const UcxHello& early : std::exchange(early_hellos_, {})) Judge(early);
  CheckComplete();
  return absl::OkStatus();
}

absl::Status UcxPeers::Parse(std::span<const TransportPeer> list) {
  if (rank_.value() >= list.size() || list[rank_.value()].endpoint != self_.Pack()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the list of ", list.size(), " peers does not have this transport at worker rank ", rank_.value()));
  }
  std::vector<UcxPeer> peers;
  for (uint32_t rank = 0; rank < list.size(); ++rank) {
    const std::string context = absl::StrCat("worker rank ", rank);
    absl::StatusOr<UcxEndpoint> endpoint = UcxEndpoint::Parse(list[rank].endpoint);
    if (!endpoint.ok()) return WithContext(endpoint.status(), context);
    STAGECOACH_RETURN_IF_ERROR(WithContext(CheckReachable(self_, *endpoint), context));
    peers.push_back({.rank = WorkerRank(rank),
                     .incarnation = list[rank].incarnation,
                     .endpoint = *std::move(endpoint),
                     .connection = nullptr,
                     .memory = PeerMemory(0),
                     .route = "",
                     .has_said_hello = false,
                     .has_welcomed = false,
                     .gone = {},
                     .letters = {}});
  }
  peers_ = std::move(peers);
  return absl::OkStatus();
}

absl::Status UcxPeers::Connect(UcxPeer& peer) {
  if (self_.mode == UcxMode::kCma) {
    peer.memory = PeerMemory(static_cast<pid_t>(peer.endpoint.process));
    STAGECOACH_RETURN_IF_ERROR(
        WithContext(peer.memory.Check(peer.endpoint.own_address), absl::StrCat("worker rank ", peer.rank.value())));
  }
  absl::StatusOr<ucp_ep_h> connection = worker_.Connect(peer.endpoint.address, peer.rank);
  if (!connection.ok()) {
    MarkGone(peer, connection.status().message());
    return peer.gone;
  }
  peer.connection = *connection;
  peer.route = worker_.RouteOf(peer.connection);
  if (!IsUsableRoute(peer.route)) {
    return absl::FailedPreconditionError(absl::StrCat("UCX would go to worker rank ", peer.rank.value(), " by ",
                                                      peer.route,
                                                      "; this transport needs tcp, sysv or posix alone: see UCX_TLS"));
  }
  if (self_.mode == UcxMode::kCma) peer.route += "+cma";
  const UcxHello hello{.fence = fence_, .rank = rank_, .endpoint = self_.Pack()};
  Send(peer, hello.Pack(peer.endpoint.token));
  return absl::OkStatus();
}

absl::Status UcxPeers::Result(absl::Duration timeout) const {
  if (is_settled()) return result_;
  std::string missing;
  for (const UcxPeer& peer : peers_) {
    if (peer.rank == rank_ || (peer.has_said_hello && peer.has_welcomed)) continue;
    absl::StrAppend(&missing, missing.empty() ? "" : ", ", peer.rank.value());
  }
  return MissingPeersError(rank_, missing, timeout);
}

UcxPeer* UcxPeers::Find(uint32_t rank) {
  return rank < peers_.size() && WorkerRank(rank) != rank_ ? &peers_[rank] : nullptr;
}

UcxPeer* UcxPeers::FindConnected(uint32_t rank) {
  UcxPeer* peer = Find(rank);
  return peer != nullptr && peer->has_said_hello ? peer : nullptr;
}

void UcxPeers::OnHello(const UcxMessage& message, uint64_t to_token) {
  const std::optional<UcxHello> hello = UcxHello::Parse(message.header);
  if (!hello.has_value()) return;
  if (to_token != self_.token) {
    Refuse(*hello, absl::AbortedError(absl::StrCat(FenceText(hello->fence), ", rank ", hello->rank.value(),
                                                   " came with an outdated endpoint: here is ", FenceText(fence_),
                                                   ", rank ", rank_.value())));
  } else if (started_) {
    Judge(*hello);
  } else if (early_hellos_.size() < kMostEarlyHellos) {
    early_hellos_.push_back(*hello);
  }
}

void UcxPeers::Judge(const UcxHello& hello) {
  UcxPeer* peer = Find(hello.rank.value());
  const TransportFence expected{fence_.job, fence_.epoch, peer == nullptr ? Incarnation(0) : peer->incarnation};
  if (peer == nullptr || hello.fence.job != expected.job || hello.fence.epoch != expected.epoch ||
      hello.fence.incarnation != expected.incarnation || hello.endpoint != peer->endpoint.Pack()) {
    const absl::Status wrong = WrongPeerError(hello.rank, hello.fence, hello.rank, expected);
    Refuse(hello, wrong);
    Settle(wrong);
    return;
  }
  if (std::exchange(peer->has_said_hello, true)) return;
  const UcxTextMessage welcome{.type = UcxMessageType::kWelcome, .end = 0, .text = ""};
  Send(*peer, welcome.Pack(peer->endpoint.token, rank_));
  CheckComplete();
}

void UcxPeers::OnWelcome(UcxPeer& peer) {
  peer.has_welcomed = true;
  CheckComplete();
}

void UcxPeers::CheckComplete() {
  const bool complete = std::all_of(peers_.begin(), peers_.end(), [this](const UcxPeer& peer) {
    return peer.rank == rank_ || (peer.has_said_hello && peer.has_welcomed);
  });
  if (complete) Settle(absl::OkStatus());
}

void UcxPeers::Refuse(const UcxHello& hello, const absl::Status& why) {
  spdlog::warn("refused a connection: {}", why.ToString());
  absl::StatusOr<UcxEndpoint> endpoint = UcxEndpoint::Parse(hello.endpoint);
  if (!endpoint.ok() || !CheckReachable(self_, *endpoint).ok()) return;
  const UcxTextMessage message{
      .type = UcxMessageType::kRefused, .end = 0, .text = std::string(why.message().data(), why.message().size())};
  std::string refused = message.Pack(endpoint->token, rank_);
  UcxPeer* peer = Find(hello.rank.value());
  if (peer != nullptr && peer->endpoint.token == endpoint->token) {
    Send(*peer, std::move(refused));
    return;
  }
  if (strangers_.size() == kMostStrangers) return;
  const absl::StatusOr<ucp_ep_h> connection = worker_.Connect(endpoint->address, kNoRank);
  if (!connection.ok()) return;
  strangers_.push_back(std::make_unique<UcxPeer>());
  strangers_.back()->connection = *connection;
  Send(*strangers_.back(), std::move(refused));
}

void UcxPeers::OnRefused(uint32_t from, const std::string& text) {
  Settle(absl::AbortedError(absl::StrCat("refused by worker rank ", from, ": ", text)));
}

bool UcxPeers::MarkGone(UcxPeer& peer, absl::string_view why) {
  if (!peer.gone.ok()) return false;
  peer.gone = PeerGoneError(peer.rank, why);
  DropLetters(peer);
  if (started_) Settle(peer.gone);
  return true;
}

void UcxPeers::Send(UcxPeer& peer, std::string message) {
  if (!peer.gone.ok() || peer.connection == nullptr) return;
  peer.letters.push_back(std::move(message));
  ++num_letters_;
}

bool UcxPeers::Deliver() {
  if (num_letters_ == 0) return false;
  bool delivered = false;
  for (UcxPeer& peer : peers_) delivered = DeliverTo(peer) || delivered;
  for (const auto& stranger : strangers_) delivered = DeliverTo(*stranger) || delivered;
  return delivered;
}

bool UcxPeers::DeliverTo(UcxPeer& peer) {
  bool delivered = false;
  while (!peer.letters.empty()) {
    const ucs_status_t sent = worker_.TrySend(peer.connection, std::as_bytes(std::span(peer.letters.front())), {});
    if (sent == UCS_ERR_NO_RESOURCE) break;
    if (sent != UCS_OK) {  // the endpoint's callback tells what that means
      DropLetters(peer);
      break;
    }
    peer.letters.pop_front();
    --num_letters_;
    delivered = true;
  }
  return delivered;
}

void UcxPeers::DropLetters(UcxPeer& peer) {
  num_letters_ -= peer.letters.size();
  peer.letters.clear();
}

void UcxPeers::Settle(const absl::Status& result) {
  if (is_settled()) return;
  result_ = result;
  settled_.store(true, std::memory_order_release);
}

}  // namespace stagecoach
