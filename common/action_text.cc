#include "common/action_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace stagecoach {
namespace {

absl::string_view KindText(v1::ActionKind kind) {
  switch (kind) {
    case v1::ACTION_KIND_FORWARD:
      return "F";
    case v1::ACTION_KIND_BACKWARD:
      return "B";
    case v1::ACTION_KIND_BACKWARD_INPUT:
      return "I";
    case v1::ACTION_KIND_BACKWARD_WEIGHT:
      return "W";
    case v1::ACTION_KIND_RECOMPUTE:
      return "R";
    case v1::ACTION_KIND_LOAD:
      return "LOAD";
    case v1::ACTION_KIND_SEND_FORWARD:
      return "SEND_F";
    case v1::ACTION_KIND_RECV_FORWARD:
      return "RECV_F";
    case v1::ACTION_KIND_SEND_BACKWARD:
      return "SEND_B";
    case v1::ACTION_KIND_RECV_BACKWARD:
      return "RECV_B";
    case v1::ACTION_KIND_LOSS:
      return "LOSS";
    case v1::ACTION_KIND_SEND_TIE:
      return "SEND_TIE";
    case v1::ACTION_KIND_RECV_TIE:
      return "RECV_TIE";
    case v1::ACTION_KIND_TIE_REDUCE:
      return "TIE_REDUCE";
    case v1::ACTION_KIND_GRADIENT_NORM:
      return "NORM";
    default:
      return "?";
  }
}

bool IsOfWholeStep(v1::ActionKind kind) {
  return kind == v1::ACTION_KIND_SEND_TIE || kind == v1::ACTION_KIND_RECV_TIE || kind == v1::ACTION_KIND_TIE_REDUCE ||
         kind == v1::ACTION_KIND_GRADIENT_NORM;
}

}  // namespace

std::string ActionText(const v1::Action& action) {
  std::string text = absl::StrCat(action.stage(), KindText(action.kind()));
  if (!IsOfWholeStep(action.kind())) absl::StrAppend(&text, action.micro_batch());
  return text;
}

}  // namespace stagecoach
