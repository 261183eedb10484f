// LoweredCsv of lowered_csv.h.

#include "coordinator/program/lowered_csv.h"

#include "absl/strings/str_cat.h"
#include "common/action_text.h"

namespace stagecoach {
namespace {

bool HasWord(v1::ActionKind kind) {
  return (kind >= v1::ACTION_KIND_FORWARD && kind <= v1::ACTION_KIND_RECOMPUTE) ||
         (kind >= v1::ACTION_KIND_SEND_FORWARD && kind <= v1::ACTION_KIND_RECV_BACKWARD);
}

}  // namespace

std::string LoweredCsv(std::span<const v1::StageProgram> programs) {
  std::string csv;
  for (const v1::StageProgram& program : programs) {
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
