#ifndef STAGECOACH_COORDINATOR_SPEC_JOB_SPEC_PARSER_H_
#define STAGECOACH_COORDINATOR_SPEC_JOB_SPEC_PARSER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach {

// One thing that is wrong with a specification, where, and what was probably meant.
struct SpecError {
  int line = 0;      // 1-based; 0: of the document as a whole (no path), or from --set
  int column = 0;    // 1-based
  std::string path;  // training.seq_len
  std::string message;
  std::string hint;  // empty: none
};

// "examples/tiny.yaml:7:3: training.seq_length: unknown key; did you mean seq_len?"; without a line, what is wrong was
// given by --set.
std::string FormatSpecError(absl::string_view file, const SpecError& error);

struct SpecOverride {
  std::string path;   // training.steps
  std::string value;  // YAML
};
// From "a.b=value". INVALID_ARGUMENT.
absl::StatusOr<SpecOverride> ParseOverride(absl::string_view text);

// YAML or JSON (YAML's flow syntax) to a resolved JobSpec: every default filled in, but for
// resources.threads_per_worker, which is resolved when the job is placed. Strict: unknown and duplicate keys, wrong
// types, numbers out of range or not finite, values that are not built yet, and batch arithmetic that does not hold are
// errors. At most 1 MiB, 16 levels, 100 aliases. Never throws. Pure; does not look at data files. Appends to
// `errors` all that is wrong (at most 50) and then returns INVALID_ARGUMENT.
absl::StatusOr<v1::JobSpec> ParseJobSpec(absl::string_view text, const std::vector<SpecOverride>& overrides,
                                         std::vector<SpecError>& errors);

// Whether a specification from elsewhere is one that ParseJobSpec makes: resolved, and right in everything that
// ParseJobSpec checks. INVALID_ARGUMENT, with what is wrong.
absl::Status CheckJobSpec(const v1::JobSpec& spec);

// The resolved specification as YAML that ParseJobSpec reads back to an equal message.
std::string PrintJobSpec(const v1::JobSpec& spec);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SPEC_JOB_SPEC_PARSER_H_
