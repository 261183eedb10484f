// Any text is refused, or it is a table, a timeline or programs that their printed form reads back to. No program makes
// the verifier break.

#include <google/protobuf/util/message_differencer.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/check.h"
#include "coordinator/program/lowering.h"
#include "coordinator/program/program_parser.h"
#include "coordinator/program/schedule_proof.h"
#include "coordinator/program/table_text.h"

namespace stagecoach {
namespace {

using google::protobuf::util::MessageDifferencer;

constexpr uint32_t kMaxProven = 1024;  // micro-batches: programs of more take long

std::string TextOf(const std::vector<v1::StageProgram>& programs) {
  std::string text;
  for (const v1::StageProgram& program : programs) text += ProgramText(program);
  return text;
}

void CheckPrograms(absl::string_view text) {
  const absl::StatusOr<std::vector<v1::StageProgram>> programs = ParseProgramText(text);
  if (!programs.ok()) {
    STAGECOACH_CHECK(absl::IsInvalidArgument(programs.status()));
    return;
  }
  const absl::StatusOr<std::vector<v1::StageProgram>> again = ParseProgramText(TextOf(*programs));
  STAGECOACH_CHECK(again.ok() && TextOf(*again) == TextOf(*programs));
  for (const v1::StageProgram& program : *programs) {
    if (program.num_micro_batches() > kMaxProven) return;
  }
  for (const SendSemantics sends : {SendSemantics::kRendezvous, SendSemantics::kBuffered, SendSemantics::kBlocking}) {
    ProvePrograms(*programs, sends).IgnoreError();
  }
}

template <typename Message>
void CheckText(absl::string_view text, absl::StatusOr<Message> (*parse)(absl::string_view),
               std::string (*print)(const Message&)) {
  const absl::StatusOr<Message> message = parse(text);
  if (!message.ok()) {
    STAGECOACH_CHECK(absl::IsInvalidArgument(message.status()));
    return;
  }
  const absl::StatusOr<Message> again = parse(print(*message));
  STAGECOACH_CHECK(again.ok());
  STAGECOACH_CHECK(MessageDifferencer::Equals(*message, *again));
}

}  // namespace
}  // namespace stagecoach

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  stagecoach::CheckPrograms(text);
  stagecoach::CheckText<stagecoach::v1::ComputeTable>(text, stagecoach::ParseTableText, stagecoach::TableText);
  stagecoach::CheckText<stagecoach::v1::TimedTable>(text, stagecoach::ParseTimedTableText, stagecoach::TimedTableText);
  return 0;
}
