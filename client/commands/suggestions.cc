#include "client/commands/suggestions.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/quoted.h"
#include "coordinator/spec/spec_text.h"

namespace stagecoach {
namespace {

constexpr size_t kMaxWordBytes = 64;

// The candidate that `word` was probably meant to be, or empty.
std::string Nearest(absl::string_view word, const std::vector<std::string>& candidates) {
  std::string nearest;
  size_t distance = word.size() / 3 + 1;  // fewer slips than this
  for (const std::string& candidate : candidates) {
    const size_t slips = word.size() > kMaxWordBytes ? distance : EditDistance(word, candidate);
    if (slips >= distance) continue;
    nearest = candidate;
    distance = slips;
  }
  return nearest;
}

std::string Unknown(absl::string_view what, absl::string_view word, const std::vector<std::string>& candidates) {
  const std::string nearest = Nearest(word, candidates);
  return absl::StrCat("unknown ", what, " ", Quoted(word), nearest.empty() ? "" : "; did you mean ", nearest,
                      nearest.empty() ? "" : "?");
}

std::vector<std::string> OptionNames(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

}  // namespace

std::vector<const CLI::App*> VisibleVerbs(const CLI::App& verb) {
  return verb.get_subcommands([](const CLI::App* sub) { return !sub->get_group().empty(); });
}

VerbPath FindVerb(const CLI::App& root, const std::vector<std::string>& words) {
  VerbPath path{.verb = &root, .num_words = 0, .text = root.get_name()};
  for (const std::string& word : words) {
    const std::vector<const CLI::App*> found =
        path.verb->get_subcommands([&](const CLI::App* sub) { return sub->check_name(word); });
    if (found.empty()) break;
    path.verb = found.front();
    ++path.num_words;
    absl::StrAppend(&path.text, " ", word);
  }
  return path;
}

WrongWord FindWrongWord(const CLI::App& root, const std::vector<std::string>& arguments) {
  const VerbPath path = FindVerb(root, arguments);
  WrongWord wrong{.message = "", .verb = path.text};
  const bool needs_verb = path.verb->get_require_subcommand_min() > 0;
  for (size_t i = path.num_words; i < arguments.size(); ++i) {
    const std::string word = arguments[i].substr(0, arguments[i].find('='));
    if (word == "--") break;
    if (absl::StartsWith(word, "--")) {
      if (path.verb->get_option_no_throw(word) == nullptr) {
        wrong.message = Unknown("option", word, OptionNames(*path.verb));
        break;
      }
    } else if (needs_verb && !absl::StartsWith(word, "-")) {
      std::vector<std::string> names;
      for (const CLI::App* verb : VisibleVerbs(*path.verb)) names.push_back(verb->get_name());
      wrong.message = Unknown("verb", word, names);
      break;
    }
  }
  return wrong;
}

}  // namespace stagecoach
