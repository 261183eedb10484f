#ifndef STAGECOACH_CLIENT_COMMANDS_COMPLETION_H_
#define STAGECOACH_CLIENT_COMMANDS_COMPLETION_H_

#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace stagecoach {

// What is put for a value of this kind: "JOB", "WORKER", "CONTEXT". `words` are those before it.
using NamesOf = std::function<std::vector<std::string>(const std::string& kind, const std::vector<std::string>& words)>;

inline constexpr char kCompleteFiles[] = ":files";  // the shell knows better

// What the last of `words`, which may be empty, can become: verbs, options, values of options, names.
std::vector<std::string> Complete(const CLI::App& root, const std::vector<std::string>& words, const NamesOf& names_of);

// The hidden verb that the shells' scripts call: prints them, one a line. Silent when there is no coordinator.
int PrintCompletions(const CLI::App& root, const std::vector<std::string>& words);
inline constexpr char kCompleteVerb[] = "__complete";

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_COMPLETION_H_
