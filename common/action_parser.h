#ifndef STAGECOACH_COMMON_ACTION_PARSER_H_
#define STAGECOACH_COMMON_ACTION_PARSER_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// "2SEND_F13" in its three parts. Decimal numbers below 2^32; the second may be missing.
struct ActionWord {
  uint32_t stage = 0;
  absl::string_view kind;  // upper-case letters and underscores; a part of the text that was split
  bool has_micro_batch = false;
  uint32_t micro_batch = 0;
};
// INVALID_ARGUMENT says which part is wrong.
absl::StatusOr<ActionWord> SplitActionWord(absl::string_view text);

// The inverse of ActionText (action_text.h). INVALID_ARGUMENT: no such kind of action, a micro-batch where the kind has
// none or none where it has one.
absl::StatusOr<v1::Action> ActionOfWord(const ActionWord& word);
absl::StatusOr<v1::Action> ParseActionText(absl::string_view text);

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_ACTION_PARSER_H_
