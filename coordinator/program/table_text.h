#ifndef STAGECOACH_COORDINATOR_PROGRAM_TABLE_TEXT_H_
#define STAGECOACH_COORDINATOR_PROGRAM_TABLE_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stagecoach/v1/program.pb.h"
#include "stagecoach/v1/timeline.pb.h"

namespace stagecoach {

// Canonical texts of the compute level and the timed level; that of the lowered level is ProgramText (lowering.h).
// Reading what was printed gives an equal message, and printing what was read the same text, for schedules whose name
// is one word.
//
//   table 1f1b stages 2 micro_batches 1           timeline 1f1b stages 2 micro_batches 1
//   worker 0 0F0 0B0                              worker 0
//   worker 1 1F0 1B0                              0F0 0 1            start and end
//                                                 holds 0 1 0        time, activations, pending weights
std::string TableText(const v1::ComputeTable& table);
std::string TimedTableText(const v1::TimedTable& timeline);

// INVALID_ARGUMENT with line and column; also when the actions are no table (coordinator/schedule/sheet_checks.h), or
// actions of a timeline overlap or end before they start.
absl::StatusOr<v1::ComputeTable> ParseTableText(absl::string_view text);
absl::StatusOr<v1::TimedTable> ParseTimedTableText(absl::string_view text);

// XXH3-128 of the canonical text: 16 bytes. ContentHash of lowering.h is that of a program.
std::string ContentHash(const v1::ComputeTable& table);
std::string ContentHash(const v1::TimedTable& timeline);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_TABLE_TEXT_H_
