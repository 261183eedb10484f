#ifndef STAGECOACH_COORDINATOR_SERVICE_GRPC_STATUS_H_
#define STAGECOACH_COORDINATOR_SERVICE_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace stagecoach {

// The same code; the message is cut to what a peer accepts in a stream's last headers.
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SERVICE_GRPC_STATUS_H_
