#ifndef STAGECOACH_COORDINATOR_FLEET_SESSION_ID_H_
#define STAGECOACH_COORDINATOR_FLEET_SESSION_ID_H_

#include <cstdint>

#include "common/ids.h"

namespace stagecoach {

// One stream of one worker, in one life of the coordinator: 1, 2, ... A stream that ends late cannot be taken for the
// one that has its place.
using SessionId = StrongId<struct SessionIdTag, uint64_t>;

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_FLEET_SESSION_ID_H_
