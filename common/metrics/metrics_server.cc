#include "common/metrics/metrics_server.h"

#include <netdb.h>
#include <sys/socket.h>

#include <array>
#include <exception>
#include <string>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "prometheus/exposer.h"

namespace stagecoach {
namespace {

// The HTTP server takes numbers only.
absl::StatusOr<ListenAddress> Resolve(const ListenAddress& address) {
  if (address.is_unix()) {
    return absl::InvalidArgumentError(absl::StrCat("metrics are served over TCP, not at ", address.ToString()));
  }
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(address.host.c_str(), nullptr, &hints, &found); error != 0) {
    return absl::InvalidArgumentError(absl::StrCat(address.host, ": ", gai_strerror(error)));
  }
  std::array<char, NI_MAXHOST> host{};
  getnameinfo(found->ai_addr, found->ai_addrlen, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST);
  freeaddrinfo(found);
  return ListenAddress{.host = host.data(), .port = address.port, .path = ""};
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(const MetricRegistry& registry,
                                                                    const ListenAddress& address) {
  STAGECOACH_ASSIGN_OR_RETURN(ListenAddress bound, Resolve(address));
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(std::vector<std::string>{
        "listening_ports", bound.ToString(), "num_threads", "2", "request_timeout_ms", "5000"});
    const std::vector<int> ports = exposer->GetListeningPorts();
    if (ports.size() != 1) return absl::UnavailableError(absl::StrCat("cannot serve metrics at ", bound.ToString()));
    bound.port = static_cast<uint16_t>(ports.front());
    exposer->RegisterCollectable(registry.collectable());
    return absl::WrapUnique(new MetricsServer(std::move(exposer), bound));
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve metrics at ", bound.ToString(), "; is the port taken? (", error.what(), ")"));
  }
}

MetricsServer::MetricsServer(std::unique_ptr<prometheus::Exposer> exposer, ListenAddress address)
    : exposer_(std::move(exposer)), address_(std::move(address)) {}

MetricsServer::~MetricsServer() = default;

}  // namespace stagecoach
