#include "client/trace/span_kind.h"

namespace stagecoach {

SpanKind SpanKindOf(v1::ActionKind kind) {
  switch (kind) {
    case v1::ACTION_KIND_FORWARD:
      return SpanKind::kForward;
    case v1::ACTION_KIND_BACKWARD:
      return SpanKind::kBackward;
    case v1::ACTION_KIND_BACKWARD_INPUT:
      return SpanKind::kBackwardInput;
    case v1::ACTION_KIND_BACKWARD_WEIGHT:
      return SpanKind::kBackwardWeight;
    case v1::ACTION_KIND_RECOMPUTE:
      return SpanKind::kRecompute;
    case v1::ACTION_KIND_LOAD:
      return SpanKind::kLoad;
    default:
      return SpanKind::kOther;
  }
}

}  // namespace stagecoach
