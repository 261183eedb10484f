#ifndef STAGECOACH_CLIENT_OUTPUT_EXIT_CODES_H_
#define STAGECOACH_CLIENT_OUTPUT_EXIT_CODES_H_

#include "absl/status/status.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach {

// What scripts rely on. Published in docs/cli.md.
enum ExitCode : int {
  kExitOk = 0,
  kExitError = 1,
  kExitUsage = 2,         // usage, specification, data or checkpoint invalid
  kExitJobFailed = 3,     // the job ended FAILED
  kExitPermission = 4,    // the coordinator does not let this user in
  kExitNotFound = 5,      // no such job or worker
  kExitUnreachable = 6,   // no coordinator, or lost while following: the job's state is not known
  kExitTimeout = 7,       // --timeout has passed
  kExitCancelled = 8,     // the job ended CANCELLED
  kExitConflict = 9,      // the job's state, or another job, is in the way
  kExitInterrupted = 130  // detached by Ctrl-C; the job goes on
};

// Of an error that a coordinator has answered with.
ExitCode ExitCodeOf(const absl::Status& status);
// Of a job that has ended.
ExitCode ExitCodeOf(v1::JobState state);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_OUTPUT_EXIT_CODES_H_
