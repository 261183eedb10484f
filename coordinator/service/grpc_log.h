#ifndef STAGECOACH_COORDINATOR_SERVICE_GRPC_LOG_H_
#define STAGECOACH_COORDINATOR_SERVICE_GRPC_LOG_H_

namespace stagecoach {

// gRPC's own lines go to this process's log from now on. What peers do wrong is an error to gRPC, and a line at level
// debug here: anybody who reaches the port could fill a log with them.
void RouteGrpcLog();

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SERVICE_GRPC_LOG_H_
