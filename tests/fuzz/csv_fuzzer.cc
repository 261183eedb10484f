// Any text is refused, or it is a table or a program that its printed form reads back to.

#include <google/protobuf/util/message_differencer.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/check.h"
#include "coordinator/program/lowered_csv.h"
#include "coordinator/program/schedule_proof.h"
#include "coordinator/schedule/action_sheet.h"
#include "coordinator/schedule/compute_csv.h"
#include "coordinator/schedule/sheet_checks.h"

namespace stagecoach {
namespace {

constexpr uint64_t kMaxProven = 4096;  // stages x micro-batches: what is larger takes long

void CheckTable(absl::string_view text) {
  const absl::StatusOr<v1::ComputeTable> table = ParseComputeCsv(text, "csv");
  if (!table.ok()) {
    STAGECOACH_CHECK(absl::IsInvalidArgument(table.status()));
    return;
  }
  const absl::StatusOr<v1::ComputeTable> again = ParseComputeCsv(ComputeCsv(*table), "csv");
  STAGECOACH_CHECK(again.ok());
  STAGECOACH_CHECK(google::protobuf::util::MessageDifferencer::Equals(*table, *again));
  if (uint64_t{table->num_stages()} * table->num_micro_batches() > kMaxProven) return;
  ProveTable(*table, {}, SendSemantics::kRendezvous).IgnoreError();
}

void CheckPrograms(const ActionSheet& sheet) {
  const absl::StatusOr<std::vector<v1::StageProgram>> programs = ProgramsOfSheet(sheet);
  if (!programs.ok()) {
    STAGECOACH_CHECK(absl::IsInvalidArgument(programs.status()));
    return;
  }
  const absl::StatusOr<std::string> csv = LoweredCsv(*programs);
  STAGECOACH_CHECK(csv.ok());
  const absl::StatusOr<ActionSheet> again = ReadActionCsv(*csv);
  STAGECOACH_CHECK(again.ok());
  const absl::StatusOr<std::vector<v1::StageProgram>> programs_again = ProgramsOfSheet(*again);
  STAGECOACH_CHECK(programs_again.ok());
  STAGECOACH_CHECK(*LoweredCsv(*programs_again) == *csv);
  if (programs->size() * programs->front().num_micro_batches() > kMaxProven) return;
  ProvePrograms(*programs, SendSemantics::kBlocking).IgnoreError();
}

}  // namespace
}  // namespace stagecoach

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  stagecoach::CheckTable(text);
  const absl::StatusOr<stagecoach::ActionSheet> sheet = stagecoach::ReadActionCsv(text);
  if (sheet.ok()) stagecoach::CheckPrograms(*sheet);
  return 0;
}
