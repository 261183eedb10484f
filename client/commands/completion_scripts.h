#ifndef STAGECOACH_CLIENT_COMMANDS_COMPLETION_SCRIPTS_H_
#define STAGECOACH_CLIENT_COMMANDS_COMPLETION_SCRIPTS_H_

#include <string>

namespace stagecoach {

// Of "bash", "zsh" or "fish". Each passes the words up to the cursor to `stagecoach __complete --` and offers what it
// prints.
std::string CompletionScript(const std::string& shell);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_COMPLETION_SCRIPTS_H_
