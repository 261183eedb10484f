#ifndef STAGECOACH_COMMON_LISTEN_ADDRESS_H_
#define STAGECOACH_COMMON_LISTEN_ADDRESS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stagecoach {

// Where a daemon listens, or is dialled: HOST:PORT, [IPV6]:PORT or unix:PATH.
struct ListenAddress {
  std::string host;   // without brackets; empty: a Unix socket
  uint16_t port = 0;  // 0: any that is free
  std::string path;   // of the Unix socket

  bool is_unix() const { return host.empty(); }
  // As it is written; what gRPC takes too.
  std::string ToString() const;
  // Only processes of this machine can reach it. Names are not resolved: of those only "localhost" is.
  bool IsLocal() const;
};

// INVALID_ARGUMENT, with what is wrong and how it should look.
absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text);

// The first form of security: whoever reaches the port can do everything. FAILED_PRECONDITION: others than this
// machine's processes would, and `insecure` does not say that this is meant.
absl::Status CheckListenIsAllowed(const ListenAddress& address, bool insecure);
// Of a port where nobody can do more than read `what` ("metrics"), by the same rule; the value of --WHAT-listen, which
// errors name. Nothing: it is empty.
absl::StatusOr<std::optional<ListenAddress>> ParseReadersAddress(absl::string_view text, bool insecure,
                                                                 absl::string_view what);
// The same of who dials: whoever answers at an address of another machine is believed.
absl::Status CheckDialIsAllowed(const ListenAddress& address, bool insecure);

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_LISTEN_ADDRESS_H_
