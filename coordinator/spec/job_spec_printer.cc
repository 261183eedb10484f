#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/spec/job_spec_parser.h"
#include "coordinator/spec/job_spec_schema.h"

namespace stagecoach {

std::string PrintJobSpec(const v1::JobSpec& spec) {
  std::string text;
  std::vector<std::string> sections;  // that the last line stands in
  for (const SchemaField& field : JobSpecFields()) {
    if (!AppliesTo(field, spec)) continue;
    const std::vector<std::string> keys = absl::StrSplit(field.path, '.');
    const size_t depth = keys.size() - 1;
    size_t same = 0;
    while (same < depth && same < sections.size() && sections[same] == keys[same]) ++same;
    for (size_t i = same; i < depth; ++i) absl::StrAppend(&text, std::string(2 * i, ' '), keys[i], ":\n");
    sections.assign(keys.begin(), keys.begin() + static_cast<ptrdiff_t>(depth));

    const std::string value = PrintField(field, spec);
    absl::StrAppend(&text, std::string(2 * depth, ' '), keys.back(), ":", absl::StartsWith(value, "\n") ? "" : " ",
                    value, "\n");
  }
  return text;
}

}  // namespace stagecoach
