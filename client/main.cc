// stagecoach: the command line. Each verb is a file in client/commands.

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include "client/commands/command_line.h"
#include "common/log.h"

int main(int argc, char** argv) {
  stagecoach::StartLog("stagecoach");
  // A reader that goes away makes writes fail, which is an error to report; it does not end a training run in mid-step.
  std::signal(SIGPIPE, SIG_IGN);
  return stagecoach::RunCommandLine(std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
}
