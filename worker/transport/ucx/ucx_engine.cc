#include "worker/transport/ucx/ucx_engine.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "worker/transport/ucx/ucx_mode.h"

namespace stagecoach {
namespace {

// Between two questions to an event, which offers nothing to sleep on.
constexpr std::chrono::microseconds kEventPollInterval(20);
// Peers that never stop talking do not keep anybody.
constexpr int kMostCatchUpSteps = 1000;
// Of an abort, for the goodbyes to leave. A peer that is not told sees it when everything is destroyed.
constexpr std::chrono::milliseconds kLongestGoodbye(5);
// With shared memory nobody says when a peer has made room: first after this time, then ever more seldom.
constexpr std::chrono::microseconds kShortestRetry(20);
constexpr std::chrono::microseconds kLongestRetry(1000);

UcxDriver::TimePoint Now() { return std::chrono::steady_clock::now(); }

}  // namespace

absl::StatusOr<std::unique_ptr<UcxEngine>> UcxEngine::Create(const UcxTransportOptions& options,
                                                             const TransportFence& fence, WorkerRank rank) {
  std::unique_ptr<UcxEngine> engine(new UcxEngine());
  if (options.mode == UcxMode::kCma) STAGECOACH_RETURN_IF_ERROR(PeerMemory::Prepare());
  engine->wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (engine->wake_fd_ < 0) return absl::ErrnoToStatus(errno, "eventfd");
  STAGECOACH_ASSIGN_OR_RETURN(engine->worker_, UcxWorker::Create(options, *engine));
  STAGECOACH_RETURN_IF_ERROR(engine->worker_->AddSource(engine->wake_fd_));
  engine->ports_.Find(engine->worker_->address());
  UcxEndpoint& endpoint = engine->endpoint_;
  endpoint = {.mode = options.mode,
              .token = RandomToken(),
              .life_line = 0,
              .process = static_cast<uint32_t>(getpid()),
              .own_address = reinterpret_cast<uint64_t>(&endpoint.token),
              .host = HostIdentity::OfThisProcess(),
              .address = engine->worker_->address()};
  if (UcxErrorMode(options.mode) == UCP_ERR_HANDLING_MODE_NONE) {
    endpoint.life_line = RandomToken();
    STAGECOACH_ASSIGN_OR_RETURN(engine->life_line_, LifeLine::Create(endpoint.life_line));
  }
  engine->peers_ = std::make_unique<UcxPeers>(fence, rank, endpoint, *engine->worker_);
  engine->edges_ = std::make_unique<UcxEdges>(
      *engine->worker_, *engine->peers_,
      UcxEdges::Sizes{.largest_payload = LargestPayload(options.mode), .smallest_offer = SmallestOffer(options.mode)});
  return engine;
}

UcxEngine::~UcxEngine() {
  if (wake_fd_ >= 0) close(wake_fd_);
}

absl::Status UcxEngine::Connect(std::span<const TransportPeer> list) {
  STAGECOACH_RETURN_IF_ERROR(peers_->Start(list));
  for (uint32_t rank = 0; life_line_ != nullptr && rank < peers_->size(); ++rank) {
    UcxPeer* peer = peers_->Find(rank);
    if (peer == nullptr) continue;
    const absl::StatusOr<int> watched = life_line_->Watch(peer->endpoint.life_line, peer->rank);
    if (watched.ok()) {
      STAGECOACH_RETURN_IF_ERROR(worker_->AddSource(*watched));
    } else {
      LosePeer(*peer, watched.status().message());
    }
  }
  return absl::OkStatus();
}

absl::Status UcxEngine::ClosePorts() { return ports_.Close(); }

void UcxEngine::CatchUp() {
  for (int i = 0; i < kMostCatchUpSteps && Step(); ++i) {
  }
  LoseTheGone();
}

void UcxEngine::Start(UcxTransfer& transfer) { edges_->Start(transfer); }

bool UcxEngine::Step() {
  bool stepped = peers_->Deliver();
  stepped = edges_->Move() || stepped;
  if (worker_->Progress()) {
    stepped = true;
    peers_->Deliver();
    edges_->Move();
  }
  if (stepped) {
    retry_interval_ = {};
    has_stepped_ = true;
  }
  return stepped;
}

bool UcxEngine::PrepareToSleep() {
  if (life_line_ == nullptr) return worker_->Arm();
  // Otherwise something has woken who slept, and it was nothing for UCX.
  if (!has_stepped_ && LoseTheGone()) return false;
  const bool has_stepped = std::exchange(has_stepped_, false);
  if (!edges_->is_blocked() && !peers_->has_letters()) {
    if (worker_->Arm()) {
      retry_interval_ = {};
      return true;
    }
    if (has_stepped) return false;
    // A peer has begun a message and not ended it: it was killed or stopped there, or is about to go on.
  }
  // UCX would have us go on asking.
  retry_interval_ = std::clamp(2 * retry_interval_, kShortestRetry, kLongestRetry);
  return true;
}

bool UcxEngine::LoseTheGone() {
  if (life_line_ == nullptr) return false;
  const std::vector<WorkerRank> gone = life_line_->TakeGone();
  for (const WorkerRank rank : gone) LosePeer(*peers_->Find(rank.value()), "its process or its transport has ended");
  return !gone.empty();
}

UcxDriver::TimePoint UcxEngine::next_step() const {
  if (edges_->waits_for_events()) return Now() + kEventPollInterval;
  if (retry_interval_.count() > 0) return Now() + retry_interval_;
  return UcxDriver::TimePoint::max();
}

bool UcxEngine::TakeSettled() {
  const bool edges = edges_->TakeSettled();
  return std::exchange(settled_, false) || edges;
}

int UcxEngine::event_fd() const { return worker_->event_fd(); }

void UcxEngine::Wake() { eventfd_write(wake_fd_, 1); }

void UcxEngine::ForgetWake() {
  eventfd_t ignored;
  eventfd_read(wake_fd_, &ignored);
}

void UcxEngine::OnMessage(const UcxMessage& message) {
  const std::optional<UcxMessageHeader> header = ParseHeader(message.header);
  if (!header.has_value()) return;
  if (header->type == UcxMessageType::kHello) {
    peers_->OnHello(message, header->to_token);
    settled_ = true;
    return;
  }
  // Of another epoch, or of a stranger.
  if (header->to_token != endpoint_.token) return;
  if (header->type == UcxMessageType::kWelcome) {
    if (UcxPeer* peer = peers_->Find(header->from_rank); peer != nullptr) peers_->OnWelcome(*peer);
    settled_ = true;
    return;
  }
  if (header->type == UcxMessageType::kRefused || header->type == UcxMessageType::kGoodbye) {
    const std::optional<UcxTextMessage> text = UcxTextMessage::Parse(message.header);
    UcxPeer* peer = peers_->Find(header->from_rank);
    if (!text.has_value() || peer == nullptr) return;
    if (header->type == UcxMessageType::kRefused) peers_->OnRefused(header->from_rank, text->text);
    LosePeer(*peer, text->text);
    return;
  }
  UcxPeer* peer = peers_->FindConnected(header->from_rank);
  if (peer != nullptr) OnEdgeMessage(*peer, *header, message);
}

void UcxEngine::OnEdgeMessage(UcxPeer& peer, const UcxMessageHeader& header, const UcxMessage& message) {
  switch (header.type) {
    case UcxMessageType::kOpen:
    case UcxMessageType::kClose: {
      const std::optional<UcxEdgeMessage> edge = UcxEdgeMessage::Parse(message.header);
      if (!edge.has_value()) return;
      if (header.type == UcxMessageType::kOpen) {
        edges_->OnOpen(peer, *edge);
      } else {
        edges_->OnClose(peer, edge->key);
      }
      return;
    }
    case UcxMessageType::kMismatch: {
      const std::optional<UcxTextMessage> mismatch = UcxTextMessage::Parse(message.header);
      if (mismatch.has_value()) edges_->OnMismatch(peer, *mismatch);
      return;
    }
    case UcxMessageType::kReady:
      edges_->OnReady(peer, message, 0, header.num_ready);
      return;
    case UcxMessageType::kData:
    case UcxMessageType::kOffer:
    case UcxMessageType::kTaken:
      if (header.type == UcxMessageType::kData) edges_->OnData(peer, message);
      if (header.type == UcxMessageType::kOffer) edges_->OnOffer(peer, message);
      if (header.type == UcxMessageType::kTaken) edges_->OnTaken(peer, message);
      edges_->OnReady(peer, message, 1, header.num_ready);
      return;
    default:
      return;
  }
}

void UcxEngine::OnEndpointFailed(WorkerRank peer, ucs_status_t status) {
  UcxPeer* failed = peers_->Find(peer.value());
  if (failed != nullptr) LosePeer(*failed, ucs_status_string(status));
}

void UcxEngine::LosePeer(UcxPeer& peer, absl::string_view why) {
  if (!peers_->MarkGone(peer, why)) return;
  edges_->FailPeer(peer, peer.gone);
  settled_ = true;
}

void UcxEngine::Stop(const absl::Status& reason) {
  edges_->FailAll(reason);
  SayGoodbye(reason);
}

void UcxEngine::Destroy() {
  worker_ = nullptr;
  life_line_ = nullptr;
}

void UcxEngine::SayGoodbye(const absl::Status& reason) {
  const UcxTextMessage goodbye{.type = UcxMessageType::kGoodbye,
                               .end = 0,
                               .text = std::string(reason.message().data(), reason.message().size())};
  for (uint32_t rank = 0; rank < peers_->size(); ++rank) {
    UcxPeer* peer = peers_->Find(rank);
    if (peer != nullptr) peers_->Send(*peer, goodbye.Pack(peer->endpoint.token, peers_->self()));
  }
  const UcxDriver::TimePoint deadline = Now() + kLongestGoodbye;
  while (peers_->Deliver(), peers_->has_letters() && Now() < deadline) {
    if (worker_->Progress()) continue;
    pollfd polled = {worker_->event_fd(), POLLIN, 0};
    poll(&polled, 1, 1);
  }
}

}  // namespace stagecoach
