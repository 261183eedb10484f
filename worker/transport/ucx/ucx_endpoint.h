#ifndef STAGECOACH_WORKER_TRANSPORT_UCX_UCX_ENDPOINT_H_
#define STAGECOACH_WORKER_TRANSPORT_UCX_UCX_ENDPOINT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/transport/ucx/ucx_transport.h"

namespace stagecoach {

// Where processes must agree to share memory: the kernel's boot, and the IPC and network namespaces; to read each
// other's, the PID namespace too.
struct HostIdentity {
  uint64_t boot = 0;
  uint64_t ipc_namespace = 0;
  uint64_t network_namespace = 0;
  uint64_t pid_namespace = 0;
  bool operator==(const HostIdentity&) const = default;

  static HostIdentity OfThisProcess();
};

// What Transport::endpoint() packs.
struct UcxEndpoint {
  UcxMode mode = UcxMode::kTcp;
  // Random: names one life of one transport. Every message to it carries it, so that what a process of another epoch
  // sends to a port that was used again is known for what it is.
  uint64_t token = 0;
  uint64_t life_line = 0;    // modes that share memory: the name of its LifeLine
  uint32_t process = 0;      // cma: its id,
  uint64_t own_address = 0;  // and an address that it can be read at
  HostIdentity host;
  std::string address;  // of the UCX worker

  std::string Pack() const;
  // INVALID_ARGUMENT: not such an endpoint, or of another version.
  static absl::StatusOr<UcxEndpoint> Parse(const std::string& bytes);
};

// Never 0.
uint64_t RandomToken();

// Whether `self` can use `peer` in its mode. FAILED_PRECONDITION says what they do not share.
absl::Status CheckReachable(const UcxEndpoint& self, const UcxEndpoint& peer);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_TRANSPORT_UCX_UCX_ENDPOINT_H_
