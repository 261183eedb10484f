#ifndef STAGECOACH_WORKER_SESSION_GRPC_SESSION_H_
#define STAGECOACH_WORKER_SESSION_GRPC_SESSION_H_

#include <cstddef>
#include <memory>
#include <string>

#include "worker/session.h"

namespace stagecoach {

struct GrpcSessionOptions {
  std::string address;  // HOST:PORT or unix:PATH
  // Messages that wait to be written; more are refused. Of messages received, as many may wait before the stream is
  // read no further.
  size_t send_capacity = 1024;
  size_t receive_capacity = 64;
};

// Dials a coordinator: each session has a connection of its own, so that no state of an earlier one, least of all its
// waits between attempts, can delay it. A host that does not answer is noticed by the connection's keepalive.
std::unique_ptr<Session> DialGrpcSession(const GrpcSessionOptions& options);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_SESSION_GRPC_SESSION_H_
