#ifndef STAGECOACH_WORKER_TRANSPORT_UCX_UCX_LOG_H_
#define STAGECOACH_WORKER_TRANSPORT_UCX_UCX_LOG_H_

#include <ucs/type/status.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace stagecoach {

// From now on UCX's messages go to this process's log, at level debug: whoever gets the error from UCX reports it. What
// UCX logs as fatal and would end the process for becomes the error of the call that met it: with shared memory the
// death of a peer is such a message. Idempotent; for the life of the process.
void TakeOverUcxLog();

// `what`: "cannot start UCX". With the last message that UCX logged on this thread, which often names the cause.
// UNAVAILABLE: what concerns a peer. INVALID_ARGUMENT, RESOURCE_EXHAUSTED, INTERNAL: the rest.
absl::Status UcxError(ucs_status_t status, absl::string_view what);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_TRANSPORT_UCX_UCX_LOG_H_
