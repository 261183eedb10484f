#ifndef STAGECOACH_COORDINATOR_JOBS_EFFECT_H_
#define STAGECOACH_COORDINATOR_JOBS_EFFECT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "coordinator/fleet/session_id.h"
#include "coordinator/fleet/worker_record.h"
#include "coordinator/jobs/input.h"
#include "coordinator/jobs/job_record.h"
#include "coordinator/plan/planner.h"
#include "stagecoach/v1/checkpoint.pb.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/journal.pb.h"
#include "stagecoach/v1/program.pb.h"
#include "stagecoach/v1/trace.pb.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

// The runner fills in sequence, term and time, appends, then applies. Effects run in order, so that what follows in a
// decision happens only when the entry is in the journal.
struct AppendEntry {
  v1::JournalEntry entry;
};
// What was observed of a job, as it now is.
struct ProgressChanged {
  JobId job;
  JobProgress progress;
};
// A worker as it now is.
struct WorkerChanged {
  WorkerRecord worker;
};
struct WorkerForgotten {
  WorkerId worker;
};
// When the coordinator is to look at the clock again.
struct PulseSet {
  absl::Duration at = absl::InfiniteDuration();
  absl::Duration lenient_until;  // sessions that end before may be followed by others until then
};
// Until when workers that were there before a restart may still dial.
struct FleetAwaited {
  absl::Duration until = absl::InfiniteDuration();  // nobody is awaited any more
};
struct ObserveFact {
  std::variant<WorkerChanged, WorkerForgotten, ProgressChanged, PulseSet, FleetAwaited> fact;
};
// Over the session that the worker then has; to nobody when it has none, or is another incarnation than the fence says.
struct SendToWorker {
  WorkerId worker;
  v1::CoordinatorMessage message;  // with its fence
};
struct EndSession {
  SessionId session;
  absl::Status why;  // OK: after Dismiss
};
// Opens the data and plans, elsewhere; ends with PlanReady.
struct StartPlanning {
  JobId job;
  uint64_t attempt = 0;
  v1::JobSpec spec;
  std::vector<WorkerProfile> workers;
  std::shared_ptr<const v1::Plan> same_cut_as = nullptr;    // null: cut as is best
  std::shared_ptr<const v1::ComputeTable> order = nullptr;  // of `same_cut_as`; null: it follows from the schedule
};
// Makes a new directory for a checkpoint, elsewhere; ends with DirectoryMade.
struct MakeDirectory {
  JobId job;
  uint64_t attempt = 0;
  std::string parent;  // checkpoint.dir
  Step step;
};
// Makes the shards that were written a checkpoint, elsewhere; ends with ManifestWritten.
struct WriteManifest {
  JobId job;
  uint64_t attempt = 0;
  std::string directory;  // of DirectoryMade
  v1::CheckpointManifest manifest;
};
// Of a WriteManifest that is not waited for any more: what of it has not begun is not done. It has no other effect.
struct AbandonManifest {
  JobId job;
  uint64_t attempt = 0;
};
// Removes what an attempt that failed has left, elsewhere. Nobody waits for it.
struct RemoveDirectory {
  std::string directory;  // of DirectoryMade
};
// Removes checkpoints that need not be kept, elsewhere: see PruneCheckpoints. Nobody waits for it.
struct PruneOldCheckpoints {
  std::string parent;  // checkpoint.dir
  std::string job_name;
  uint32_t keep_last = 0;
};
// Keeps them for a while, in memory, for those who follow the job's log.
struct KeepLogLines {
  JobId job;
  WorkerId worker;
  v1::LogLines lines;
};
struct AnswerRequest {
  uint64_t request = 0;
  absl::StatusOr<JobId> answer;
};
// Workers are about to be asked for their timelines: see TraceReadings.
struct BeginTraceReading {
  uint64_t reading = 0;
  v1::TraceHeader header;                        // without its steps
  std::map<WorkerId, uint32_t> awaited = {};     // rank of each that is asked
  std::map<uint32_t, std::string> missing = {};  // by rank: why it is not
  absl::Duration deadline;                       // for all answers
};
struct TakeTracePart {
  WorkerId worker;
  v1::TracePart part;
};
// What the workers said that they did with the time of the step that was just committed, and which time that was: for
// metrics and timelines alone.
struct StepMeasured {
  JobId job;
  Step step;
  absl::Duration begin, end;                                   // from the order to the verdict
  std::vector<std::shared_ptr<const v1::StepPrepared>> votes;  // by worker rank
};
// Decide on a Tick next, on the state as it then is.
struct RequestTick {};

using Effect = std::variant<AppendEntry, ObserveFact, SendToWorker, EndSession, StartPlanning, MakeDirectory,
                            WriteManifest, AbandonManifest, RemoveDirectory, PruneOldCheckpoints, KeepLogLines,
                            AnswerRequest, BeginTraceReading, TakeTracePart, StepMeasured, RequestTick>;

struct Decision {
  std::vector<Effect> effects;
  std::string reason;  // one line, for the log
};

// Appends the effects and the reason of another decision.
void Extend(Decision& decision, Decision more);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOBS_EFFECT_H_
