// stagecoach: the command line. Each verb is a file in client/commands.

#include <csignal>
#include <iostream>

#include "CLI/CLI.hpp"
#include "client/commands/command.h"
#include "client/commands/exit_codes.h"
#include "common/log.h"

namespace {

// CLI11 knows many failures; scripts get one code for "the command line is wrong".
int ExitWithParseError(const CLI::App& app, const CLI::ParseError& error) {
  const int code = app.exit(error, std::cout, std::cerr);
  return code == 0 ? stagecoach::kExitOk : stagecoach::kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  stagecoach::StartLog("stagecoach");
  CLI::App app(
      "Stagecoach trains models through a pipeline of workers.\n\n"
      "  stagecoach train examples/tiny.yaml --workers 4\n"
      "  stagecoach plan examples/tiny.yaml --workers 4\n"
      "  stagecoach checkpoint digest DIR\n",
      "stagecoach");
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::help);
  stagecoach::Invocation invocation;
  stagecoach::AddTrain(app, invocation);
  stagecoach::AddValidate(app, invocation);
  stagecoach::AddPlan(app, invocation);
  stagecoach::AddCheckpoint(app, invocation);
  stagecoach::AddVersion(app, invocation);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return ExitWithParseError(app, error);
  }
  // A reader that goes away makes writes fail, which is an error to report; it does not end a training run in mid-step.
  std::signal(SIGPIPE, SIG_IGN);
  const int code = invocation.run();
  std::cout.flush();
  if (code != stagecoach::kExitOk || std::cout.good()) return code;
  std::cerr << "stagecoach: standard output could not be written\n";
  return stagecoach::kExitError;
}
