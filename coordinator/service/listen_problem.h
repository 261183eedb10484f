#ifndef STAGECOACH_COORDINATOR_SERVICE_LISTEN_PROBLEM_H_
#define STAGECOACH_COORDINATOR_SERVICE_LISTEN_PROBLEM_H_

#include "absl/status/status.h"
#include "common/listen_address.h"

namespace stagecoach {

// What gRPC does not say. OK: nothing is wrong with it.
//   FAILED_PRECONDITION  another process listens there; the socket's path is that of something else
//   PERMISSION_DENIED, INVALID_ARGUMENT (the host's name is not known), NOT_FOUND, UNKNOWN
absl::Status FindListenProblem(const ListenAddress& address);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SERVICE_LISTEN_PROBLEM_H_
