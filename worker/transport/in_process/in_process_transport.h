#ifndef STAGECOACH_WORKER_TRANSPORT_IN_PROCESS_IN_PROCESS_TRANSPORT_H_
#define STAGECOACH_WORKER_TRANSPORT_IN_PROCESS_IN_PROCESS_TRANSPORT_H_

#include <memory>

#include "worker/transport/in_process/in_process_fabric.h"
#include "worker/transport/transport.h"

namespace stagecoach {

// Makes transports between workers that are threads of one process and whose devices' memory is host addressable. They
// have no thread of their own: a transfer is copied by the thread that posts its second end.
TransportFactory InProcessTransportFactory(std::shared_ptr<InProcessFabric> fabric);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_TRANSPORT_IN_PROCESS_IN_PROCESS_TRANSPORT_H_
