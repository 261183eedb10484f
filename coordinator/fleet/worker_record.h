#ifndef STAGECOACH_COORDINATOR_FLEET_WORKER_RECORD_H_
#define STAGECOACH_COORDINATOR_FLEET_WORKER_RECORD_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "coordinator/fleet/session_id.h"
#include "stagecoach/v1/coordinator.pb.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

enum class WorkerPresence {
  kConnected,  // has a session
  kSuspect,    // its session broke, and the grace is not over
  kLost,
};

// Why a worker is lost.
enum class WorkerLoss {
  kNone,
  kSessionEnded,
  kLeaseExpired,
  kLeft,
  kHung,
};

// What is known of one worker, by its name. Observed: gone when the coordinator ends. Times are the coordinator's
// clock.
struct WorkerRecord {
  WorkerId id;
  Incarnation incarnation;
  v1::Hello hello;
  WorkerPresence presence = WorkerPresence::kConnected;
  std::optional<SessionId> session;  // of a connected worker
  // When it is lost, if nothing is heard of it: the end of the lease of a connected one, of the grace of a suspect.
  // When it is forgotten, of a lost one.
  absl::Duration deadline = absl::InfiniteDuration();
  absl::Duration last_seen;
  absl::Status why;                     // it is suspect or lost
  WorkerLoss loss = WorkerLoss::kNone;  // of a lost one
  std::optional<std::string> leaving;   // why it has been asked to end; it gets no job
  // It came with what it held of a job that goes on without it, and has not said yet that it has given that up.
  bool clearing = false;
  std::optional<JobId> job;  // that has reserved it
  // Of its newest heartbeat.
  JobId run_job;
  Epoch run_epoch;
  std::optional<v1::RunState> run;
  absl::Duration unmoved_since;  // (job, epoch, run, instruction, wait), or that nothing runs, is the same
  // Incarnations that later ones took the place of: they do not come back.
  std::vector<Incarnation> superseded;
};

using Workers = std::map<WorkerId, WorkerRecord>;

// As clients see it.
v1::WorkerState StateOf(const WorkerRecord& worker);
// Whether a job may get it.
bool IsAvailable(const WorkerRecord& worker);

// Takes over what a heartbeat says of the program that runs.
void NoteRun(absl::Duration now, const v1::WorkerMessage& heartbeat, WorkerRecord& worker);
// Where it was, when its newest heartbeat was about this epoch of this job.
std::optional<v1::RunState> RunIn(const WorkerRecord& worker, const JobId& job, Epoch epoch);

// Without job and stages.
v1::WorkerDescription Describe(const WorkerRecord& worker, absl::Duration now);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_FLEET_WORKER_RECORD_H_
