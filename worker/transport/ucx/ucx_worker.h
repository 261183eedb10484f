#ifndef STAGECOACH_WORKER_TRANSPORT_UCX_UCX_WORKER_H_
#define STAGECOACH_WORKER_TRANSPORT_UCX_UCX_WORKER_H_

#include <ucp/api/ucp.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "worker/transport/ucx/ucx_transport.h"

namespace stagecoach {

// An active message that has come. Valid during OnMessage.
struct UcxMessage {
  std::span<const std::byte> header;
  std::span<const std::byte> payload;
};

// A ucp_context and a ucp_worker, with wake-up: UCX behind RAII and absl::Status, without any protocol of ours. One
// thread at a time calls it.
//
// It uses as little of UCX as can be: active messages that UCX sends at once or not at all. So UCX never has a buffer
// or a request of ours, needs no answer from a peer, and can be destroyed at any time. What it offers beyond, UCX 1.13
// does not get out of: it ends the process (assertions) when a worker is destroyed while a rendezvous is under way or a
// connection's handshake is half done, and when a peer goes while UCX sends out of our memory.
class UcxWorker {
 public:
  // Called from within Progress.
  class Events {
   public:
    virtual void OnMessage(const UcxMessage& message) = 0;
    virtual void OnEndpointFailed(WorkerRank peer, ucs_status_t status) = 0;

   protected:
    ~Events() = default;
  };

  static absl::StatusOr<std::unique_ptr<UcxWorker>> Create(const UcxTransportOptions& options, Events& events);
  ~UcxWorker();

  const std::string& address() const { return address_; }
  // Readable when Progress has something to do, once Arm has said so.
  int event_fd() const { return event_fd_; }
  bool Progress();  // whether anything happened
  bool Arm();       // false: call Progress first
  // Makes event_fd readable whenever `descriptor` is.
  absl::Status AddSource(int descriptor);

  // Does not wait. UNAVAILABLE.
  absl::StatusOr<ucp_ep_h> Connect(const std::string& address, WorkerRank peer);
  // UCS_OK: sent, the bytes may be reused. UCS_ERR_NO_RESOURCE: not now; try again when Progress has done something.
  // Anything else: the endpoint has failed.
  ucs_status_t TrySend(ucp_ep_h endpoint, std::span<const std::byte> header, std::span<const std::byte> payload);
  // The transports of `endpoint`'s lanes: "tcp", "sysv".
  std::string RouteOf(ucp_ep_h endpoint) const;

 private:
  // What UCX hands back to the error callback of an endpoint.
  struct Endpoint {
    Events& events;
    WorkerRank peer;
  };

  UcxWorker(const UcxTransportOptions& options, Events& events);
  absl::Status Start(const UcxTransportOptions& options);
  static ucs_status_t OnActiveMessage(void* self, const void* header, size_t header_bytes, void* payload,
                                      size_t payload_bytes, const ucp_am_recv_param_t* parameters);

  Events& events_;
  const ucp_err_handling_mode_t error_mode_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
  std::string address_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_TRANSPORT_UCX_UCX_WORKER_H_
