#ifndef STAGECOACH_COORDINATOR_SERVICE_LIBRARY_LOG_H_
#define STAGECOACH_COORDINATOR_SERVICE_LIBRARY_LOG_H_

namespace stagecoach {

// The lines of gRPC and protobuf go to this process's log from now on. What peers do wrong is an error to them, and a
// line at level debug here: anybody who reaches the port could fill a log with them.
void RouteLibraryLogs();

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SERVICE_LIBRARY_LOG_H_
