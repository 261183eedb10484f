#ifndef STAGECOACH_COORDINATOR_JOBS_INPUT_H_
#define STAGECOACH_COORDINATOR_JOBS_INPUT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "coordinator/fleet/session_id.h"
#include "coordinator/jobs/job_record.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

struct WorkerConnected {
  WorkerId worker;
  Incarnation incarnation;
  SessionId session;
  v1::Hello hello;
};
// By its worker or the network; the coordinator has not ended it.
struct SessionEnded {
  SessionId session;
  absl::Status why;
};
struct WorkerSaid {
  SessionId session;
  v1::WorkerMessage message;
};
// `request` names who waits for the AnswerRequest effect.
struct JobRequested {
  uint64_t request = 0;
  v1::JobSpec spec;  // resolved, but for threads_per_worker and micro_batch_size, which are when the job is placed
  std::string submission_id;
};
struct CancelRequested {
  uint64_t request = 0;
  JobId job;
};
struct PauseRequested {
  uint64_t request = 0;
  JobId job;
};
struct ResumeRequested {
  uint64_t request = 0;
  JobId job;
};
struct CheckpointRequested {
  uint64_t request = 0;
  JobId job;
};
// The timeline of its last steps is to be read, as `reading`.
struct TraceRequested {
  uint64_t request = 0;
  uint64_t reading = 0;
  JobId job;
  uint32_t steps = 0;
};
// The result of StartPlanning.
struct PlanReady {
  JobId job;
  uint64_t attempt = 0;
  absl::StatusOr<std::shared_ptr<const JobPlan>> plan;
  std::string failure_reason;                               // of the job's end, when there is no plan
  std::shared_ptr<const v1::JobResumed> resumed = nullptr;  // without its job; null: it begins at step 0
};
// The result of MakeDirectory.
struct DirectoryMade {
  JobId job;
  uint64_t attempt = 0;
  absl::StatusOr<std::string> directory;
};
// The result of WriteManifest.
struct ManifestWritten {
  JobId job;
  uint64_t attempt = 0;
  absl::Status status;
};
// The journal has been replayed: once, before any other input.
struct Restarted {};
// Time has passed (NextDeadline), or workers or jobs are there that were not.
struct Tick {};

using Input = std::variant<WorkerConnected, SessionEnded, WorkerSaid, JobRequested, CancelRequested, PauseRequested,
                           ResumeRequested, CheckpointRequested, TraceRequested, PlanReady, DirectoryMade,
                           ManifestWritten, Restarted, Tick>;

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOBS_INPUT_H_
