#ifndef STAGECOACH_CLIENT_COMMANDS_SUGGESTIONS_H_
#define STAGECOACH_CLIENT_COMMANDS_SUGGESTIONS_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace stagecoach {

// The verb or option that a command line has and the program has not.
struct WrongWord {
  std::string message;  // unknown verb "sumbit"; did you mean submit? Empty: every word is known
  std::string verb;     // that was understood so far: "stagecoach get"
};
WrongWord FindWrongWord(const CLI::App& root, const std::vector<std::string>& arguments);

// The verb that `words` lead to, as far as they are verbs, and how many of them are.
struct VerbPath {
  const CLI::App* verb = nullptr;
  size_t num_words = 0;
  std::string text;  // "stagecoach get jobs"
};
VerbPath FindVerb(const CLI::App& root, const std::vector<std::string>& words);

// Verbs below this one, without those that are hidden.
std::vector<const CLI::App*> VisibleVerbs(const CLI::App& verb);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_SUGGESTIONS_H_
