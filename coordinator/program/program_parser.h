#ifndef STAGECOACH_COORDINATOR_PROGRAM_PROGRAM_PARSER_H_
#define STAGECOACH_COORDINATOR_PROGRAM_PROGRAM_PARSER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// The inverse of ProgramText (lowering.h): programs, each from a line that begins with "program" to the next such one.
// Content hashes are computed. Reading what was printed gives equal messages, for schedules whose name is one word.
// INVALID_ARGUMENT with line and column: the text is none. Whether the programs can run is not looked at: see Verify.
absl::StatusOr<std::vector<v1::StageProgram>> ParseProgramText(absl::string_view text);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_PROGRAM_PARSER_H_
