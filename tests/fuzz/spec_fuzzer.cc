// Any text at all is either refused with a reason or a specification that survives being printed and read again.

#include <google/protobuf/util/message_differencer.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/check.h"
#include "coordinator/spec/job_spec_parser.h"
#include "coordinator/spec/model_graph.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stagecoach;
  absl::string_view text(reinterpret_cast<const char*>(data), size);
  // What follows a line of `--set` is an override.
  std::vector<SpecOverride> overrides;
  constexpr absl::string_view kSeparator = "\n--set\n";
  if (const size_t at = text.find(kSeparator); at != absl::string_view::npos) {
    const absl::StatusOr<SpecOverride> change = ParseOverride(text.substr(at + kSeparator.size()));
    if (change.ok()) overrides.push_back(*change);
    text = text.substr(0, at);
  }

  std::vector<SpecError> errors;
  const absl::StatusOr<v1::JobSpec> spec = ParseJobSpec(text, overrides, errors);
  STAGECOACH_CHECK(spec.ok() == errors.empty());
  for (const SpecError& error : errors) STAGECOACH_CHECK(!FormatSpecError("f", error).empty());
  if (!spec.ok()) return 0;

  const std::string printed = PrintJobSpec(*spec);
  const absl::StatusOr<v1::JobSpec> again = ParseJobSpec(printed, {}, errors);
  STAGECOACH_CHECK(again.ok());
  STAGECOACH_CHECK(google::protobuf::util::MessageDifferencer::Equals(*spec, *again));
  STAGECOACH_CHECK(PrintJobSpec(*again) == printed);
  BuildModelGraph(*spec).IgnoreError();
  return 0;
}
