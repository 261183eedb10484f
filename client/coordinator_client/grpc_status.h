#ifndef STAGECOACH_CLIENT_COORDINATOR_CLIENT_GRPC_STATUS_H_
#define STAGECOACH_CLIENT_COORDINATOR_CLIENT_GRPC_STATUS_H_

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace stagecoach {

// The two have the same codes.
inline absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COORDINATOR_CLIENT_GRPC_STATUS_H_
