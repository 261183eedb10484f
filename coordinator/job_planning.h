#ifndef STAGECOACH_COORDINATOR_JOB_PLANNING_H_
#define STAGECOACH_COORDINATOR_JOB_PLANNING_H_

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/file_system.h"
#include "coordinator/jobs/effect.h"
#include "coordinator/jobs/input.h"
#include "coordinator/plan/planner.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach {

using Planner = std::function<absl::StatusOr<PlannedJob>(const v1::JobSpec&, const std::vector<WorkerProfile>&)>;

// What StartPlanning orders: opens the data, finds where the job is to start, plans, and identifies the data. A plan
// whose order is given with it is lowered again, and `planner` not asked. Without a plan the result has the reason of
// the job's end:
//   InvalidData           the data cannot be read, or is too little
//   CheckpointNotFound    the checkpoint that was named is not there
//   CorruptCheckpoint     it, or each one there is, is damaged
//   CheckpointUnreadable  the file system does not say what is there: an I/O error, no permission
//   SpecChanged           it is of a job that this one cannot go on with
//   PlanningFailed        no cut fits
// Reads data and whole checkpoints: takes as long as that does. Thread-safe as far as `planner` and `files` are.
PlanReady PlanJobOfSpec(const StartPlanning& order, const Planner& planner, FileSystem& files);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOB_PLANNING_H_
