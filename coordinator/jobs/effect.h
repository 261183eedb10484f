#ifndef STAGECOACH_COORDINATOR_JOBS_EFFECT_H_
#define STAGECOACH_COORDINATOR_JOBS_EFFECT_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "coordinator/jobs/input.h"
#include "coordinator/jobs/job_record.h"
#include "coordinator/plan/planner.h"
#include "stagecoach/v1/checkpoint.pb.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/journal.pb.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

// The runner fills in sequence and term, appends, then applies. Effects run in order, so that what follows in a
// decision happens only when the entry is in the journal.
struct AppendEntry {
  v1::JournalEntry entry;
};
// What was observed of a job, as it now is.
struct ProgressChanged {
  JobId job;
  JobProgress progress;
};
struct ObserveFact {
  std::variant<WorkerConnected, WorkerLost, ProgressChanged> fact;
};
struct SendToWorker {
  WorkerId worker;
  v1::CoordinatorMessage message;  // with its fence
};
// Opens the data and plans, elsewhere; ends with PlanReady.
struct StartPlanning {
  JobId job;
  uint64_t attempt = 0;
  v1::JobSpec spec;
  std::vector<WorkerProfile> workers;
};
// Makes a new directory for a checkpoint, elsewhere; ends with DirectoryMade.
struct MakeDirectory {
  JobId job;
  Epoch epoch;
  std::string parent;  // checkpoint.dir
  Step step;
};
// Makes the shards that were written a checkpoint, elsewhere; ends with ManifestWritten.
struct WriteManifest {
  JobId job;
  Epoch epoch;
  std::string directory;  // of DirectoryMade
  v1::CheckpointManifest manifest;
};
struct NotifyFollowers {
  JobId job;
  std::variant<v1::JobStatus, v1::StepEvent> event;
};
struct AnswerRequest {
  uint64_t request = 0;
  absl::StatusOr<JobId> answer;
};
// Decide on a Tick next, on the state as it then is.
struct RequestTick {};

using Effect = std::variant<AppendEntry, ObserveFact, SendToWorker, StartPlanning, MakeDirectory, WriteManifest,
                            NotifyFollowers, AnswerRequest, RequestTick>;

struct Decision {
  std::vector<Effect> effects;
  std::string reason;  // one line, for the log
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOBS_EFFECT_H_
