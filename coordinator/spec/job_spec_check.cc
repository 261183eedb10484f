#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/spec/job_spec_parser.h"
#include "google/protobuf/util/message_differencer.h"

namespace stagecoach {
namespace {

constexpr size_t kMaxErrorsShown = 5;

std::string Describe(const std::vector<SpecError>& errors) {
  std::string text;
  for (size_t i = 0; i < std::min(errors.size(), kMaxErrorsShown); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : "; ", errors[i].path, errors[i].path.empty() ? "" : ": ", errors[i].message);
  }
  if (errors.size() > kMaxErrorsShown) absl::StrAppend(&text, "; and ", errors.size() - kMaxErrorsShown, " more");
  return text;
}

}  // namespace

absl::Status CheckJobSpec(const v1::JobSpec& spec) {
  std::vector<SpecError> errors;
  const absl::StatusOr<v1::JobSpec> read = ParseJobSpec(PrintJobSpec(spec), {}, errors);
  if (!read.ok()) return absl::InvalidArgumentError(absl::StrCat("the specification: ", Describe(errors)));
  std::string difference;
  google::protobuf::util::MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&difference);
  if (differencer.Compare(spec, *read)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the specification is not resolved, or has what this version does not know: ",
                   difference.substr(0, difference.find('\n'))));
}

}  // namespace stagecoach
