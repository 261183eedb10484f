#include "worker/transport/transfer_tag.h"

#include "absl/strings/str_cat.h"

namespace stagecoach {

const char* ChannelKindText(v1::ChannelKind kind) {
  switch (kind) {
    case v1::CHANNEL_KIND_ACTIVATION:
      return "activation";
    case v1::CHANNEL_KIND_GRADIENT:
      return "gradient";
    case v1::CHANNEL_KIND_TIE:
      return "tie";
    case v1::CHANNEL_KIND_STATE:
      return "state";
    case v1::CHANNEL_KIND_SKIP:
      return "skip";
    case v1::CHANNEL_KIND_SKIP_GRADIENT:
      return "skip_gradient";
    default:
      return "unknown kind";
  }
}

std::string TagText(TransferTag tag) {
  const uint64_t kind = tag.bits >> 60;
  return absl::StrCat(ChannelKindText(static_cast<v1::ChannelKind>(kind)), " of stage ", tag.bits >> 48 & 0xfff,
                      ", micro-batch ", tag.bits >> 32 & 0xffff, ", step ", tag.bits & 0xffffffff);
}

}  // namespace stagecoach
