#include "common/action_parser.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/action_text.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

constexpr absl::string_view kForm = "an action is a stage, a kind and a micro-batch: 2F0";

struct KindForm {
  v1::ActionKind kind = v1::ACTION_KIND_UNSPECIFIED;
  bool has_micro_batch = false;
};

// From what ActionText writes, so that the two cannot differ.
const std::map<std::string, KindForm, std::less<>>& FormsOfKinds() {
  static const auto* const forms = [] {
    auto* made = new std::map<std::string, KindForm, std::less<>>();
    const google::protobuf::EnumDescriptor& kinds = *v1::ActionKind_descriptor();
    for (int i = 0; i < kinds.value_count(); ++i) {
      v1::Action action;
      action.set_kind(static_cast<v1::ActionKind>(kinds.value(i)->number()));
      if (action.kind() == v1::ACTION_KIND_UNSPECIFIED) continue;
      const std::string text = ActionText(action);  // "0F0", "0NORM"
      const bool has_micro_batch = absl::ascii_isdigit(static_cast<unsigned char>(text.back()));
      (*made)[text.substr(1, text.size() - 1 - (has_micro_batch ? 1 : 0))] = {action.kind(), has_micro_batch};
    }
    return made;
  }();
  return *forms;
}

// Takes the characters that `belongs` accepts off the front.
template <typename Predicate>
absl::string_view TakeWhile(absl::string_view& text, Predicate belongs) {
  const auto end = std::find_if_not(text.begin(), text.end(), belongs);
  const absl::string_view taken = text.substr(0, static_cast<size_t>(end - text.begin()));
  text.remove_prefix(taken.size());
  return taken;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

absl::StatusOr<ActionWord> SplitActionWord(absl::string_view text) {
  const absl::string_view stage = TakeWhile(text, IsDigit);
  ActionWord word;
  word.kind = TakeWhile(text, [](char c) { return (c >= 'A' && c <= 'Z') || c == '_'; });
  const absl::string_view micro_batch = TakeWhile(text, IsDigit);
  if (stage.empty() || word.kind.empty() || !text.empty()) return absl::InvalidArgumentError(kForm);
  if (!absl::SimpleAtoi(stage, &word.stage)) {
    return absl::InvalidArgumentError("the number of the stage is far too large");
  }
  word.has_micro_batch = !micro_batch.empty();
  if (word.has_micro_batch && !absl::SimpleAtoi(micro_batch, &word.micro_batch)) {
    return absl::InvalidArgumentError("the number of the micro-batch is far too large");
  }
  return word;
}

absl::StatusOr<v1::Action> ActionOfWord(const ActionWord& word) {
  const auto form = FormsOfKinds().find(word.kind);
  if (form == FormsOfKinds().end()) {
    const char* hint = word.kind == "BW" ? "; older files have it for B, and B for I: write those" : "";
    return absl::InvalidArgumentError(absl::StrCat("there is no action of kind ", word.kind, hint));
  }
  if (form->second.has_micro_batch != word.has_micro_batch) {
    return absl::InvalidArgumentError(
        absl::StrCat(word.kind, form->second.has_micro_batch ? " needs a micro-batch" : " has no micro-batch"));
  }
  v1::Action action;
  action.set_kind(form->second.kind);
  action.set_stage(word.stage);
  action.set_micro_batch(word.micro_batch);
  return action;
}

absl::StatusOr<v1::Action> ParseActionText(absl::string_view text) {
  STAGECOACH_ASSIGN_OR_RETURN(const ActionWord word, SplitActionWord(text));
  return ActionOfWord(word);
}

}  // namespace stagecoach
