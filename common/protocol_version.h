#ifndef STAGECOACH_COMMON_PROTOCOL_VERSION_H_
#define STAGECOACH_COMMON_PROTOCOL_VERSION_H_

#include <cstdint>

namespace stagecoach {

// Of the session between worker and coordinator: raised by every change that an older end would misunderstand. Ends of
// different versions refuse each other by name.
inline constexpr uint32_t kProtocolVersion = 2;

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_PROTOCOL_VERSION_H_
