#ifndef STAGECOACH_WORKER_TRANSPORT_UCX_UCX_TRANSPORT_H_
#define STAGECOACH_WORKER_TRANSPORT_UCX_UCX_TRANSPORT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/transport/transport.h"

namespace stagecoach {

// How UCX moves the bytes. docs/decisions/0002-ucx-transport.md has the measurements behind this table.
//
// mode | between                                                    | UCX_TLS   | a peer's death is seen by
// tcp  | hosts that reach each other                                | tcp,self  | UCX: its connection ends
// shm  | processes of one host with one IPC and network namespace   | sysv,self | a socket of ours that the kernel ends
// cma  | the same, with one PID namespace and one user              | sysv,self | the same
//
// All keep what Transport says. A peer that dies or is stopped at any point does not end this process, and Abort and
// destruction are bounded whatever peers do. No peer writes this process's buffers: data is copied into them here, by
// whoever calls UCX, and never after Abort. In tcp and shm none reads them either.
//
// Of cma: small transfers go as in shm; of a large one UCX only carries the address, and the receiver has the kernel
// copy the bytes out of the sender's memory (process_vm_readv), a bounded piece at a time. So after the sender's Abort
// a receiver that does not know of it yet, or was stopped, may still read where the buffer was. That is harmless:
// reading changes nothing at the sender, not even when the memory is gone, and the receiver throws away what it has
// read unless a word beside it says, afterwards, that the sender had not taken its buffer back; Abort clears that word
// before it returns. The kernel decides who may read whom: UcxTransportFactory and Connect say FAILED_PRECONDITION when
// it does not let these. Each worker lets every process of its user read its memory, as it is anyway where the
// ptrace_scope is 0.
//
// Of tcp: nothing on the wire is authenticated or encrypted, and UCX itself trusts whoever speaks its protocol, so only
// interfaces of a trusted network belong in `network_devices`. Bytes that do not begin as UCX does are dropped at any
// time. Once a transport is connected its port takes no more connections at all.
enum class UcxMode { kTcp, kShm, kCma };

struct UcxTransportOptions {
  UcxMode mode = UcxMode::kTcp;
  // Interfaces that tcp mode listens on and connects from, comma separated ("eth0,lo"), or "all".
  std::string network_devices = "lo";
};

// "tcp", "shm", "cma". INVALID_ARGUMENT names these.
absl::StatusOr<UcxMode> ParseUcxMode(absl::string_view text);
const char* UcxModeText(UcxMode mode);

// Transports between worker processes. Each has a UCX context, a UCX worker and a thread of its own. UCX_* variables of
// the environment are passed to UCX, and go before what the options say.
TransportFactory UcxTransportFactory(UcxTransportOptions options);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_TRANSPORT_UCX_UCX_TRANSPORT_H_
