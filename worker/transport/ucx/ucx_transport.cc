#include "worker/transport/ucx/ucx_transport.h"

#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "worker/transport/in_process/in_process_channel.h"
#include "worker/transport/in_process/in_process_edge.h"
#include "worker/transport/transport_errors.h"
#include "worker/transport/ucx/ucx_driver.h"
#include "worker/transport/ucx/ucx_engine.h"

namespace stagecoach {
namespace {

class UcxChannel final : public Channel {
 public:
  UcxChannel(std::shared_ptr<UcxEnd> end, UcxEngine& engine, UcxDriver& driver)
      : end_(std::move(end)), engine_(engine), driver_(driver) {}

  ~UcxChannel() override {
    driver_.Run([this] { engine_.edges().Close(*end_); });
  }

  absl::StatusOr<Transfer*> Send(TransferTag tag, std::span<const std::byte> buffer, const EventRef& ready) override {
    if (!end_->is_sender()) return absl::InternalError(absl::StrCat("the sender of ", TagText(tag), " is not here"));
    // A sender's buffer is only read.
    return end_->Post({tag, buffer.size()}, const_cast<std::byte*>(buffer.data()), ready);
  }

  absl::StatusOr<Transfer*> Recv(TransferTag tag, std::span<std::byte> buffer, const EventRef& ready) override {
    if (end_->is_sender()) return absl::InternalError(absl::StrCat("the receiver of ", TagText(tag), " is not here"));
    return end_->Post({tag, buffer.size()}, buffer.data(), ready);
  }

  std::string route() const override { return end_->place().route; }

 private:
  const std::shared_ptr<UcxEnd> end_;
  UcxEngine& engine_;
  UcxDriver& driver_;
};

// The edges within this worker, which need no UCX. Thread-safe.
class LocalEdges {
 public:
  absl::StatusOr<std::unique_ptr<Channel>> Open(const v1::ChannelSpec& spec) {
    MutexLock lock(mutex_);
    if (!aborted_.ok()) return aborted_;
    if (!keys_.insert({spec.from_stage(), spec.to_stage(), spec.kind()}).second) {
      return absl::AlreadyExistsError(absl::StrCat(ChannelText(spec), ": this end is open already"));
    }
    auto edge = std::make_shared<InProcessEdge>(ChannelText(spec), Clock::Real());
    STAGECOACH_RETURN_IF_ERROR(edge->Open(EdgeEnd::kSender, spec.num_slots()));
    STAGECOACH_RETURN_IF_ERROR(edge->Open(EdgeEnd::kReceiver, spec.num_slots()));
    edges_.push_back(edge);
    return std::make_unique<InProcessChannel>(std::move(edge), /*is_sender=*/true, /*is_receiver=*/true);
  }

  void Abort(const absl::Status& reason) {
    std::vector<std::shared_ptr<InProcessEdge>> edges;
    {
      MutexLock lock(mutex_);
      if (aborted_.ok()) aborted_ = reason;
      edges = edges_;
    }
    for (const auto& edge : edges) edge->Fail(reason, reason);
  }

 private:
  Mutex mutex_;
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);
  std::set<std::tuple<uint32_t, uint32_t, v1::ChannelKind>> keys_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<InProcessEdge>> edges_ ABSL_GUARDED_BY(mutex_);
};

class UcxTransport final : public Transport {
 public:
  explicit UcxTransport(std::unique_ptr<UcxEngine> engine)
      : engine_(std::move(engine)), endpoint_(engine_->endpoint().Pack()), driver_(*engine_) {}

  ~UcxTransport() override { Abort(absl::AbortedError("the transport was destroyed")); }

  const TransportCapabilities& capabilities() const override { return capabilities_; }
  std::string endpoint() const override { return endpoint_; }

  absl::Status Connect(std::span<const TransportPeer> list, absl::Duration timeout) override {
    const auto deadline = DeadlineIn(timeout);
    absl::Status result;
    if (!driver_.Run([&] { result = engine_->Connect(list); })) return driver_.abort_reason();
    STAGECOACH_RETURN_IF_ERROR(result);
    driver_.WaitUntil([this] { return engine_->peers().is_settled(); }, deadline);
    const auto finish = [&] {
      result = engine_->peers().Result(timeout);
      if (result.ok()) result = engine_->ClosePorts();
    };
    if (!driver_.Run(finish)) return driver_.abort_reason();
    return result;
  }

  absl::StatusOr<std::unique_ptr<Channel>> Open(const v1::ChannelSpec& spec) override {
    absl::StatusOr<std::shared_ptr<UcxEnd>> end = nullptr;
    if (!driver_.Run([&] { end = OpenEnd(spec); })) return driver_.abort_reason();
    if (!end.ok()) return end.status();
    if (*end == nullptr) return local_edges_.Open(spec);
    driver_.Reserve(spec.num_slots());
    return std::make_unique<UcxChannel>(*std::move(end), *engine_, driver_);
  }

  void Abort(const absl::Status& reason) override {
    local_edges_.Abort(reason);
    driver_.Abort(reason);
  }

 private:
  // With the turn. Null: both ends are here.
  absl::StatusOr<std::shared_ptr<UcxEnd>> OpenEnd(const v1::ChannelSpec& spec) {
    UcxPeers& peers = engine_->peers();
    const uint32_t self = peers.self().value();
    if (!peers.is_settled()) return absl::FailedPreconditionError("channels are opened after Connect");
    engine_->CatchUp();
    const bool is_sender = spec.from_worker_rank() == self;
    const bool is_receiver = spec.to_worker_rank() == self;
    if (is_sender && is_receiver) return nullptr;
    UcxPeer* peer = peers.Find(is_sender ? spec.to_worker_rank() : spec.from_worker_rank());
    if ((!is_sender && !is_receiver) || peer == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(ChannelText(spec), ": not of worker rank ", self, " of ", peers.size()));
    }
    return engine_->edges().Open(spec, *peer, is_sender, driver_);
  }

  const std::unique_ptr<UcxEngine> engine_;
  const std::string endpoint_;
  const TransportCapabilities capabilities_;
  LocalEdges local_edges_;
  UcxDriver driver_;  // last: its thread uses the engine
};

}  // namespace

TransportFactory UcxTransportFactory(UcxTransportOptions options) {
  return [options = std::move(options)](const TransportFence& fence,
                                        WorkerRank rank) -> absl::StatusOr<std::unique_ptr<Transport>> {
    STAGECOACH_ASSIGN_OR_RETURN(std::unique_ptr<UcxEngine> engine, UcxEngine::Create(options, fence, rank));
    return std::make_unique<UcxTransport>(std::move(engine));
  };
}

}  // namespace stagecoach
