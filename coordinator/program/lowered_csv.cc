// LoweredCsv of lowered_csv.h.

#include "coordinator/program/lowered_csv.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/action_text.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

bool HasWord(v1::ActionKind kind) {
  return (kind >= v1::ACTION_KIND_FORWARD && kind <= v1::ACTION_KIND_RECOMPUTE) ||
         (kind >= v1::ACTION_KIND_SEND_FORWARD && kind <= v1::ACTION_KIND_RECV_BACKWARD);
}

absl::Status CheckChannels(const v1::StageProgram& program) {
  for (const v1::ChannelSpec& channel : program.channels()) {
    if (channel.kind() != v1::CHANNEL_KIND_SKIP && channel.kind() != v1::CHANNEL_KIND_SKIP_GRADIENT) continue;
    return absl::InvalidArgumentError(absl::StrCat("PyTorch's format has no skip edges, and stages ",
                                                   channel.from_stage(), " and ", channel.to_stage(),
                                                   " have one; the canonical text has them"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> LoweredCsv(std::span<const v1::StageProgram> programs) {
  std::string csv;
  for (const v1::StageProgram& program : programs) {
    STAGECOACH_RETURN_IF_ERROR(CheckChannels(program));
    absl::string_view separator = "";
    for (const v1::Instruction& instruction : program.instructions()) {
      if (!HasWord(instruction.action().kind())) continue;
      absl::StrAppend(&csv, separator, ActionText(instruction.action()));
      separator = ",";
    }
    absl::StrAppend(&csv, "\n");
  }
  return csv;
}

}  // namespace stagecoach
