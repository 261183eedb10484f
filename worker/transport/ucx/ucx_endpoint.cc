#include "worker/transport/ucx/ucx_endpoint.h"

#include <sys/stat.h>

#include <fstream>
#include <random>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/transport/ucx/wire.h"

namespace stagecoach {
namespace {

constexpr uint32_t kMagic = 0x78635553;  // "SUcx"
constexpr uint16_t kVersion = 2;

uint64_t NamespaceOf(const char* name) {
  struct stat found = {};
  return stat(absl::StrCat("/proc/self/ns/", name).c_str(), &found) == 0 ? found.st_ino : 0;
}

// FNV-1a: the same in every process, unlike absl::Hash.
uint64_t HashOf(const std::string& text) {
  uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

}  // namespace

HostIdentity HostIdentity::OfThisProcess() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return {.boot = HashOf(boot),
          .ipc_namespace = NamespaceOf("ipc"),
          .network_namespace = NamespaceOf("net"),
          .pid_namespace = NamespaceOf("pid")};
}

std::string UcxEndpoint::Pack() const {
  WireWriter writer;
  writer.Put(kMagic).Put(kVersion).Put(static_cast<uint16_t>(mode)).Put(token).Put(life_line);
  writer.Put(process).Put(own_address);
  writer.Put(host.boot).Put(host.ipc_namespace).Put(host.network_namespace).Put(host.pid_namespace);
  std::string bytes = writer.PutString(address).Take();
  return bytes + WireWriter().Put(HashOf(bytes)).Take();
}

absl::StatusOr<UcxEndpoint> UcxEndpoint::Parse(const std::string& bytes) {
  WireReader reader(std::as_bytes(std::span(bytes)));
  const auto magic = reader.Get<uint32_t>();
  const auto version = reader.Get<uint16_t>();
  if (!reader.ok() || magic != kMagic) {
    return absl::InvalidArgumentError(absl::StrCat("not an endpoint of the ucx transport (", bytes.size(), " bytes)"));
  }
  if (version != kVersion) {
    return absl::InvalidArgumentError(absl::StrCat("an endpoint of version ", version,
                                                   " of the ucx transport; this is ", kVersion,
                                                   ": all workers of a job must be of one version"));
  }
  UcxEndpoint endpoint;
  const auto mode = reader.Get<uint16_t>();
  endpoint.token = reader.Get<uint64_t>();
  endpoint.life_line = reader.Get<uint64_t>();
  endpoint.process = reader.Get<uint32_t>();
  endpoint.own_address = reader.Get<uint64_t>();
  endpoint.host.boot = reader.Get<uint64_t>();
  endpoint.host.ipc_namespace = reader.Get<uint64_t>();
  endpoint.host.network_namespace = reader.Get<uint64_t>();
  endpoint.host.pid_namespace = reader.Get<uint64_t>();
  endpoint.address = reader.GetString();
  const auto hash = reader.Get<uint64_t>();
  if (!reader.at_end() || hash != HashOf(bytes.substr(0, bytes.size() - sizeof(hash))) ||
      mode > static_cast<uint16_t>(UcxMode::kCma) || endpoint.token == 0) {
    return absl::InvalidArgumentError("a damaged endpoint of the ucx transport");
  }
  endpoint.mode = static_cast<UcxMode>(mode);
  return endpoint;
}

uint64_t RandomToken() {
  std::random_device device;
  uint64_t token = 0;
  while (token == 0) token = uint64_t{device()} << 32 | device();
  return token;
}

absl::Status CheckReachable(const UcxEndpoint& self, const UcxEndpoint& peer) {
  if (self.mode != peer.mode) {
    return absl::FailedPreconditionError(absl::StrCat("it uses ucx in mode ", UcxModeText(peer.mode),
                                                      ", this worker in mode ", UcxModeText(self.mode),
                                                      ": all workers of a job need one mode"));
  }
  if (self.mode == UcxMode::kTcp) return absl::OkStatus();
  const char* differs = nullptr;
  if (self.mode == UcxMode::kCma && self.host.pid_namespace != peer.host.pid_namespace) differs = "PID namespace";
  if (self.host.network_namespace != peer.host.network_namespace) differs = "network namespace";
  if (self.host.ipc_namespace != peer.host.ipc_namespace) differs = "IPC namespace";
  if (self.host.boot != peer.host.boot) differs = "host";
  if (differs == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("it is in another ", differs, ", which mode ",
                                                    UcxModeText(self.mode), " of ucx cannot cross: use mode tcp"));
}

}  // namespace stagecoach
