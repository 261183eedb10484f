#ifndef STAGECOACH_CLIENT_COMMANDS_COMMAND_H_
#define STAGECOACH_CLIENT_COMMANDS_COMMAND_H_

#include <functional>

#include "CLI/CLI.hpp"

namespace stagecoach {

// What the command line asked for: the verb that was given fills it in, main runs it. Returns an ExitCode. Standard
// output is for data alone; progress, warnings and hints go to standard error.
struct Invocation {
  std::function<int()> run;
};

// Each adds one verb. The options live as long as `root`.
void AddTrain(CLI::App& root, Invocation& invocation);
void AddValidate(CLI::App& root, Invocation& invocation);
void AddPlan(CLI::App& root, Invocation& invocation);
void AddCheckpoint(CLI::App& root, Invocation& invocation);
void AddVersion(CLI::App& root, Invocation& invocation);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_COMMAND_H_
