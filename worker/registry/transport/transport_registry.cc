#include "worker/registry/transport/transport_registry.h"

#include "absl/strings/str_cat.h"
#include "worker/transport/ucx/ucx_transport.h"

namespace stagecoach {

absl::StatusOr<TransportFactory> FindTransport(absl::string_view name, const TransportSettings& settings) {
  UcxTransportOptions options{.mode = UcxMode::kTcp, .network_devices = settings.network_devices};
  if (name == "ucx") return UcxTransportFactory(options);
  options.mode = UcxMode::kShm;
  if (name == "ucx-shm") return UcxTransportFactory(options);
  options.mode = UcxMode::kCma;
  if (name == "ucx-cma") return UcxTransportFactory(options);
  return absl::NotFoundError(
      absl::StrCat("no transport \"", name, "\" in this build; there are ucx, ucx-shm and ucx-cma"));
}

}  // namespace stagecoach
