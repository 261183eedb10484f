#ifndef STAGECOACH_CLIENT_COMMANDS_COMMAND_LINE_H_
#define STAGECOACH_CLIENT_COMMANDS_COMMAND_LINE_H_

#include <string>
#include <vector>

namespace stagecoach {

// Runs `stagecoach` with these arguments, the program's name not among them. Returns the exit code. Never throws.
int RunCommandLine(const std::vector<std::string>& arguments);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_COMMAND_LINE_H_
