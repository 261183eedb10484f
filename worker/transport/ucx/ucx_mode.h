#ifndef STAGECOACH_WORKER_TRANSPORT_UCX_UCX_MODE_H_
#define STAGECOACH_WORKER_TRANSPORT_UCX_UCX_MODE_H_

#include <ucp/api/ucp.h>

#include <string>
#include <vector>

#include "worker/transport/ucx/ucx_transport.h"

namespace stagecoach {

struct UcxSetting {
  std::string name;  // without the prefix "UCX_", or "UCX_TCP_" and the like for what concerns one transport of UCX
  std::string value;
  bool is_required = false;  // the protocol depends on it; otherwise a variable of the environment goes before it
};
std::vector<UcxSetting> UcxSettings(const UcxTransportOptions& options);

// Whether messages can go by `route`, see UcxWorker::RouteOf: UCX sends whole ones at once only by tcp, sysv and posix.
bool IsUsableRoute(absl::string_view route);

// Bytes of data in one message: enough to make calls rare, few enough to stay in the cache on their way through UCX.
size_t LargestPayload(UcxMode mode);

// Bytes from which on a transfer is not sent, but offered to the receiver to read.
size_t SmallestOffer(UcxMode mode);

// PEER: UCX says when a peer is gone. NONE: somebody else has to see it.
ucp_err_handling_mode_t UcxErrorMode(UcxMode mode);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_TRANSPORT_UCX_UCX_MODE_H_
