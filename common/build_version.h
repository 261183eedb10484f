#ifndef STAGECOACH_COMMON_BUILD_VERSION_H_
#define STAGECOACH_COMMON_BUILD_VERSION_H_

namespace stagecoach {

// Of this build: "0.1.0". For people; what ends of a session must agree on is kProtocolVersion.
const char* BuildVersion();

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_BUILD_VERSION_H_
