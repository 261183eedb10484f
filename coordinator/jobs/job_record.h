#ifndef STAGECOACH_COORDINATOR_JOBS_JOB_RECORD_H_
#define STAGECOACH_COORDINATOR_JOBS_JOB_RECORD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "coordinator/plan/cost_table.h"
#include "coordinator/plan/planner.h"
#include "formats/corpus_identity.h"
#include "google/protobuf/timestamp.pb.h"
#include "stagecoach/v1/coordinator.pb.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/journal.pb.h"
#include "stagecoach/v1/plan.pb.h"
#include "stagecoach/v1/program.pb.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

// What planning found out about a job: the cut with its proven programs, and the size of the data.
struct JobPlan {
  PlannedJob planned;
  uint64_t num_train_samples = 0;
  uint64_t num_validation_samples = 0;
  CorpusIdentity data;
  CorpusIdentity training_data;  // of the training files alone: goes into checkpoints
};

struct MemberId {
  WorkerId worker;
  Incarnation incarnation;
  uint64_t memory_bytes = 0;  // that the plan reckons with; 0: no limit
};

// Where an epoch is. Phases follow each other downwards; kTraining, kEvaluating and kPaused alternate, kAborting ends
// any of them, and a member that dials again leads back to kPreparingStages.
enum class Phase {
  kNone,             // no workers
  kProfiling,        // workers are reserved, and the first of them was sent MeasureLayers
  kPlanning,         // workers are reserved, no epoch yet
  kReattaching,      // after a restart: the members of the last epoch are to dial
  kReplanning,       // they have, and are to have their programs again
  kPreparingStages,  // AssignStages was sent
  kConnectingPeers,  // ConnectPeers was sent
  kTraining,         // RunStep was sent
  kEvaluating,       // an evaluation's RunStep was sent
  kPaused,           // the step under way has ended, and no other begins
  kFinishing,        // the last step is committed, and not yet applied everywhere
  kMakingDirectory,  // of a checkpoint that training waits for; so in the next two
  kWritingShards,    // WriteCheckpoint was sent
  kWritingManifest,  //
  kAborting,         // only consequences of the failure are known; its cause may still be reported
};

// What one member of the epoch has said.
struct MemberProgress {
  bool prepared = false;
  bool connected = false;
  bool evaluated = false;                          // the evaluation run in flight
  absl::Duration answered_at;                      // when it said `vote` or `evaluated`
  bool aborted = false;                            // it has answered Abort, or failed by itself
  bool lost = false;                               // no longer connected
  bool attached = false;                           // it has dialled since the restart
  bool leaving = false;                            // it wants to end after the step in flight
  std::shared_ptr<const v1::HeldJob> held;         // what it said it has when it dialled; null: not asked
  std::string endpoint;                            // until all peers are connected
  std::shared_ptr<const v1::StepPrepared> vote;    // on the step in flight
  std::shared_ptr<const v1::StepApplied> applied;  // of the newest step that it applied
  std::shared_ptr<const v1::ShardWritten> shard;   // of the checkpoint in the making
  bool shard_failed = false;                       // instead
  Step late_shard;                                 // of a checkpoint that was given up, and not answered yet; 0: none
};

// A checkpoint in the making: one at a time, while training goes on or waits for it.
struct CheckpointAttempt {
  // kNone, or where it is: kMakingDirectory, kWritingShards, kWritingManifest. The job's phase is the same when
  // training waits for it.
  Phase stage = Phase::kNone;
  uint64_t number = 0;  // of this attempt, or of the one before: results of file effects carry it
  bool from_snapshot = false;
  v1::CommitRecord record;  // of its step
  std::string directory;
  std::string failure;                                 // of the first shard that could not be written; empty: none
  std::string digest;                                  // of the manifest that is being written
  std::string state_digest;                            // likewise
  absl::Duration deadline = absl::InfiniteDuration();  // for all of it
};

struct EvaluationInFlight {
  uint64_t first_sample = 0;  // of the run in flight
  uint64_t num_samples = 0;
  std::vector<v1::LossPart> loss_parts;  // of the run in flight
  double loss = 0;                       // of the runs before it
};

// Why a job is about to fail.
struct FailureCause {
  std::string reason;   // of the job's end
  std::string message;  // names worker, stage, step and action
  v1::RootCause root_cause;
};

// What the first member was asked to measure.
struct Profiling {
  WorkerKind kind;
  v1::MeasureLayers order;
  std::vector<std::string> shapes;  // of the order's layers
};

// The observed part of a job: gone when the coordinator ends, learned again from workers. Copied for each decision
// about the job, so that what is large is shared.
struct JobProgress {
  Phase phase = Phase::kNone;
  uint64_t planning_attempt = 0;
  std::shared_ptr<const std::vector<MemberId>> members;  // by worker rank; null: none
  std::vector<MemberProgress> said;                      // parallel to `members`
  uint32_t threads_per_worker = 0;                   // that every member offers: what the job gets when it has none yet
  std::shared_ptr<const WorkerKind> kind = nullptr;  // of the first member, without threads; null: not known
  std::shared_ptr<const Profiling> profiling = nullptr;  // in kProfiling
  std::shared_ptr<const JobPlan> plan;
  Step step_in_flight;
  absl::Duration step_started;
  absl::Duration run_ordered;  // the RunStep in flight
  Step commit_sent;            // the newest CommitStep of this epoch
  EvaluationInFlight evaluation;
  CheckpointAttempt checkpoint;
  bool checkpoint_due = false;              // to be begun as soon as it can
  absl::Duration checkpoint_begun;          // the newest of this epoch, or the epoch
  std::optional<FailureCause> consequence;  // the first of them
  absl::Duration phase_began;
  absl::Duration deadline = absl::InfiniteDuration();  // of the phase
};

// The durable part of a job: rebuilt by replaying the journal.
struct JobHistory {
  uint64_t submitted_at = 0;  // sequence of its entry: the order of the queue
  uint64_t ended_at = 0;      // likewise
  std::shared_ptr<const v1::JobSpec> spec;
  bool threads_are_automatic = false;  // those of `spec` are its first gang's; a gang that trained no step is none
  bool micro_batch_size_is_automatic = false;  // that of `spec` is its first plan's, likewise
  v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
  std::string reason;
  std::string message;
  std::string submission_id;
  std::string spec_digest;  // of the specification as it was submitted
  Epoch epoch;              // 0: none yet
  Epoch ended_epoch;        // the newest that has ended by a failure or a requeue
  Epoch epoch_floor;        // its epochs are above this
  uint64_t num_epochs = 0;
  std::shared_ptr<const v1::Plan> plan;           // of `epoch`
  std::shared_ptr<const v1::ComputeTable> order;  // of `plan`; null: it follows from the schedule, or the job has ended
  std::shared_ptr<const v1::Placement> placement;  // of `epoch`
  CorpusIdentity data;                             // that it trains on; empty: not known
  v1::CommitRecord last_commit;                    // step 0: none
  std::shared_ptr<const v1::StepEvent> last_step;  // null: none
  uint64_t consecutive_skips = 0;
  uint64_t evaluated_step = 0;                       // the newest whose validation loss is known
  std::vector<v1::CheckpointCompleted> checkpoints;  // written, or resumed from
  std::shared_ptr<const v1::JobResumed> resumed;     // null: it began at step 0
  std::shared_ptr<const v1::RootCause> root_cause;   // of its failure; null: none
  // Wall clock, for people; unset: not yet.
  google::protobuf::Timestamp submitted;
  google::protobuf::Timestamp started;
  google::protobuf::Timestamp ended;
};

struct JobRecord {
  JobId id;
  JobHistory history;
  JobProgress progress;
};

std::optional<WorkerRank> RankOf(const JobRecord& job, const WorkerId& worker, Incarnation incarnation);

// Whether workers have been told of the job's epoch, or may have been.
bool HasEpoch(const JobProgress& progress);
bool WaitsForCheckpoint(Phase phase);
bool EpochHasEnded(const JobHistory& history);
// That messages to the job's members carry: the current epoch, or, when that has ended, the one after it, in which
// nothing happens but its aborting.
Epoch FenceEpoch(const JobHistory& history);
Epoch NextEpoch(const JobHistory& history);

// Changes the history of the job that the entry names. Cannot fail: CheckEntry has passed.
void ApplyToJob(const v1::JournalEntry& entry, JobRecord& job);
// FAILED_PRECONDITION: the entry does not follow from the job's history.
absl::Status CheckEntry(const v1::JournalEntry& entry, const JobRecord& job);
// The job that the entry is about; empty for entries that are about none, or many.
std::string JobOfEntry(const v1::JournalEntry& entry);

v1::JobStatus StatusOf(const JobRecord& job);
// All that clients can know.
v1::Job DescribeJob(const JobRecord& job);
// No step has been committed since the job began, at step 0 or from a checkpoint: its state can be made again.
bool IsAtBeginning(const JobHistory& history);
// The newest step that a checkpoint has; 0: none.
uint64_t CheckpointedStep(const JobHistory& history);
// Stages of a worker in the current or last epoch.
std::vector<uint32_t> StagesOf(const JobHistory& history, WorkerRank rank);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOBS_JOB_RECORD_H_
