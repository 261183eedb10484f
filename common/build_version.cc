#include "common/build_version.h"

namespace stagecoach {

const char* BuildVersion() { return STAGECOACH_VERSION; }

}  // namespace stagecoach
