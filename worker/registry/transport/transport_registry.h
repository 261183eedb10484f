#ifndef STAGECOACH_WORKER_REGISTRY_TRANSPORT_TRANSPORT_REGISTRY_H_
#define STAGECOACH_WORKER_REGISTRY_TRANSPORT_TRANSPORT_REGISTRY_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/transport/transport.h"

namespace stagecoach {

// The transports that this program is linked with. NOT_FOUND names them.
absl::StatusOr<TransportFactory> FindTransport(absl::string_view name);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_REGISTRY_TRANSPORT_TRANSPORT_REGISTRY_H_
