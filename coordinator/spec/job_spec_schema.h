#ifndef STAGECOACH_COORDINATOR_SPEC_JOB_SPEC_SCHEMA_H_
#define STAGECOACH_COORDINATOR_SPEC_JOB_SPEC_SCHEMA_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "coordinator/spec/spec_node.h"
#include "coordinator/spec/spec_problems.h"
#include "coordinator/spec/spec_values.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach {

enum class ValueKind { kInteger, kIntegerOrAuto, kNumber, kBoolean, kText, kChoice, kCustom };

inline constexpr const char* kRequired = nullptr;
inline constexpr const char* kDerived = "";  // filled in from other values by the parser

// One key of the file. But for kCustom, the value is the field of v1::JobSpec at the same dotted path.
struct SchemaField {
  absl::string_view path;
  ValueKind kind = ValueKind::kCustom;
  const char* preset = kRequired;   // the default, as YAML
  IntegerRange integers = {};       // kInteger, kIntegerOrAuto ("auto" is 0)
  NumberRange numbers = {};         // kNumber
  absl::string_view choices = {};   // kChoice, see ReadChoice; kCustom: words that the value may be
  absl::string_view later = {};     // likewise; kInteger: not empty when larger values come later
  absl::string_view only_for = {};  // the optimizer.name that has this key
  absl::StatusOr<std::string> (*check)(absl::string_view text) = nullptr;  // kText
  void (*parse)(const SpecNode& node, absl::string_view path, v1::JobSpec& spec, SpecProblems& problems) = nullptr;
  std::string (*print)(const v1::JobSpec& spec) = nullptr;
};

// A key or section that the format has and this build does not.
struct LaterKey {
  absl::string_view path;
  absl::string_view hint;
};

// In the order in which keys are parsed and printed.
absl::Span<const SchemaField> JobSpecFields();
absl::Span<const LaterKey> LaterKeys();

bool AppliesTo(const SchemaField& field, const v1::JobSpec& spec);
// True when some field is below the path.
bool IsSection(absl::string_view path);
bool IsField(absl::string_view path);
const LaterKey* FindLaterKey(absl::string_view path);
// Something about certificates or other proofs of identity, in any section: there are none yet.
bool IsCredentialKey(absl::string_view key);

// Reads the value of any kind into the specification.
void ParseField(const SchemaField& field, const SpecNode& node, v1::JobSpec& spec, SpecProblems& problems);
// The value as YAML in flow style, or, after a line end, as a block list indented by four.
std::string PrintField(const SchemaField& field, const v1::JobSpec& spec);
// Text as a YAML scalar, in quotes when it needs them.
std::string PrintText(absl::string_view text);
// The shortest decimal number that is read back as the same value.
std::string PrintNumber(double value);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SPEC_JOB_SPEC_SCHEMA_H_
