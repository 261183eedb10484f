#ifndef STAGECOACH_WORKER_REGISTRY_TRANSPORT_TRANSPORT_REGISTRY_H_
#define STAGECOACH_WORKER_REGISTRY_TRANSPORT_TRANSPORT_REGISTRY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/transport/transport.h"

namespace stagecoach {

// What a user says about transports, whichever it is; what does not concern one is left alone by it.
struct TransportSettings {
  std::string network_devices = "lo";  // interfaces to use, comma separated, or "all"
};

// The transports between processes that this program is linked with: ucx (over TCP), and within one host ucx-shm
// (over shared memory) and ucx-cma (large tensors out of the other process's memory). NOT_FOUND names them.
absl::StatusOr<TransportFactory> FindTransport(absl::string_view name, const TransportSettings& settings);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_REGISTRY_TRANSPORT_TRANSPORT_REGISTRY_H_
