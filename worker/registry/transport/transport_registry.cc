#include "worker/registry/transport/transport_registry.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "worker/transport/in_process/in_process_transport.h"

namespace stagecoach {

absl::StatusOr<TransportFactory> FindTransport(absl::string_view name) {
  if (name == "in_process") return InProcessTransportFactory(std::make_shared<InProcessFabric>());
  return absl::NotFoundError(absl::StrCat("no transport \"", name, "\" in this build; there is in_process"));
}

}  // namespace stagecoach
