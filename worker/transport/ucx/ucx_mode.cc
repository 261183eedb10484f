#include "worker/transport/ucx/ucx_mode.h"

#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/transport/ucx/ucx_message.h"

namespace stagecoach {
namespace {

// Of a message, in front of its data: ours and UCX's own.
constexpr size_t kHeaderBytes = 1024;
static_assert(kLargestTransferHeader + 512 <= kHeaderBytes);

}  // namespace

absl::StatusOr<UcxMode> ParseUcxMode(absl::string_view text) {
  for (const UcxMode mode : {UcxMode::kTcp, UcxMode::kShm, UcxMode::kCma}) {
    if (text == UcxModeText(mode)) return mode;
  }
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not a mode of ucx: use tcp, shm or cma"));
}

const char* UcxModeText(UcxMode mode) {
  switch (mode) {
    case UcxMode::kTcp:
      return "tcp";
    case UcxMode::kShm:
      return "shm";
    case UcxMode::kCma:
      return "cma";
  }
  return "unknown";
}

std::vector<UcxSetting> UcxSettings(const UcxTransportOptions& options) {
  // Whole messages go at once, and not out of our memory later.
  std::vector<UcxSetting> settings = {{"ZCOPY_THRESH", "inf", true}, {"RNDV_THRESH", "inf", true}};
  const std::string message_bytes = absl::StrCat(LargestPayload(options.mode) + kHeaderBytes);
  const auto add = [&](std::vector<UcxSetting> more) { settings.insert(settings.end(), more.begin(), more.end()); };
  switch (options.mode) {
    case UcxMode::kTcp:
      add({{"TLS", "tcp,self"},
           {"NET_DEVICES", options.network_devices},
           // Otherwise creating an endpoint waits for the peer's host, for minutes, and Abort with it.
           {"CONN_NB", "y", true},
           {"TX_SEG_SIZE", message_bytes, true},
           {"RX_SEG_SIZE", message_bytes, true},
           // The coordinator's leases see hosts that are gone, and UCX's own way makes connections do more.
           {"KEEPALIVE_INTERVAL", "inf", true}});
      break;
    case UcxMode::kShm:
    case UcxMode::kCma:
      add({{"TLS", "sysv,self"}, {"MM_FIFO_ELEM_SIZE", message_bytes, true}});
      break;
  }
  return settings;
}

size_t LargestPayload(UcxMode mode) {
  switch (mode) {
    case UcxMode::kTcp:
      return size_t{256} << 10;
    case UcxMode::kShm:
    case UcxMode::kCma:
      return size_t{32} << 10;  // UCX counts a message's bytes in 16 bits
  }
  return 0;
}

size_t SmallestOffer(UcxMode mode) {
  return mode == UcxMode::kCma ? size_t{128} << 10 : std::numeric_limits<size_t>::max();
}

bool IsUsableRoute(absl::string_view route) { return route == "tcp" || route == "sysv" || route == "posix"; }

ucp_err_handling_mode_t UcxErrorMode(UcxMode mode) {
  return mode == UcxMode::kTcp ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
}

}  // namespace stagecoach
