#include "worker/session.h"

namespace stagecoach {

Session::~Session() = default;

}  // namespace stagecoach
