#ifndef STAGECOACH_CLIENT_COMMANDS_EXIT_CODES_H_
#define STAGECOACH_CLIENT_COMMANDS_EXIT_CODES_H_

namespace stagecoach {

// What scripts rely on. Published in docs/cli.md.
enum ExitCode : int {
  kExitOk = 0,
  kExitError = 1,
  kExitUsage = 2,      // usage, specification, data or checkpoint invalid
  kExitJobFailed = 3,  // the job ended FAILED
  kExitNotFound = 5,
  kExitCancelled = 8,  // the job ended CANCELLED
};

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_EXIT_CODES_H_
