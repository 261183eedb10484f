#ifndef STAGECOACH_CLIENT_COMMANDS_COMMAND_H_
#define STAGECOACH_CLIENT_COMMANDS_COMMAND_H_

#include <functional>
#include <string>

#include "CLI/CLI.hpp"

namespace stagecoach {

// What the command line asked for: the verb that was given fills it in, RunCommandLine runs it. Returns an ExitCode.
// Standard output is for data alone; progress, warnings and hints go to standard error.
struct Invocation {
  std::function<int()> run;
};

// Adds a verb. Its help begins with `examples`, one a line.
CLI::App* AddVerb(CLI::App& parent, const std::string& name, const std::string& summary, const std::string& examples);

// Each adds its verbs. The options live as long as `root`.
void AddTrain(CLI::App& root, Invocation& invocation);
void AddUp(CLI::App& root, Invocation& invocation);
void AddDown(CLI::App& root, Invocation& invocation);
void AddSubmit(CLI::App& root, Invocation& invocation);
void AddGet(CLI::App& root, Invocation& invocation);  // and ps
void AddDescribe(CLI::App& root, Invocation& invocation);
void AddLogs(CLI::App& root, Invocation& invocation);
void AddEvents(CLI::App& root, Invocation& invocation);
void AddWait(CLI::App& root, Invocation& invocation);
void AddTrace(CLI::App& root, Invocation& invocation);
void AddChanges(CLI::App& root, Invocation& invocation);  // cancel, pause, resume
void AddValidate(CLI::App& root, Invocation& invocation);
void AddPlan(CLI::App& root, Invocation& invocation);
void AddSchedule(CLI::App& root, Invocation& invocation);
void AddScheduleVerify(CLI::App& schedule, Invocation& invocation);
void AddCheckpoint(CLI::App& root, Invocation& invocation);
void AddCheckpointCreate(CLI::App& checkpoint, Invocation& invocation);
void AddConfig(CLI::App& root, Invocation& invocation);
void AddCompletion(CLI::App& root, Invocation& invocation);
void AddVersion(CLI::App& root, Invocation& invocation);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_COMMAND_H_
