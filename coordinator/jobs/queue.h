#ifndef STAGECOACH_COORDINATOR_JOBS_QUEUE_H_
#define STAGECOACH_COORDINATOR_JOBS_QUEUE_H_

#include <map>
#include <set>
#include <vector>

#include "common/ids.h"
#include "coordinator/fleet/worker_record.h"
#include "coordinator/jobs/effect.h"
#include "coordinator/jobs/input.h"
#include "coordinator/jobs/job_decision.h"
#include "coordinator/jobs/job_record.h"

namespace stagecoach {

using Jobs = std::map<JobId, JobRecord>;

// Gives the job its id (its name, with a number behind it when ended jobs have that, larger than theirs). The same
// submission id with the same specification is the same job. `epoch_floor`: the highest epoch of any forgotten job.
// ALREADY_EXISTS: a job of this name has not ended, or the submission id was used for another specification.
// INVALID_ARGUMENT: the name is empty.
Decision SubmitJob(const Jobs& jobs, Epoch epoch_floor, const JobRequested& input);

// Of those that have not ended, the job that starts next: that of the highest priority, of these the one that was
// submitted first. It waits for as many workers as it needs, and others wait behind it. Null: none waits.
const JobRecord* NextInQueue(const Jobs& jobs, const std::set<JobId>& active_jobs);

// The idle workers that the job would get: of the numerics class that has the most, by worker id; empty: too few. With
// a degree of auto all of them, at least resources.workers.
std::vector<const WorkerRecord*> ChooseGang(const v1::JobSpec& spec, const Workers& workers);

// Reserves a gang and prepares the job on it (profiling.h), or says what is missing. A job without threads_per_worker
// gets what every one of the gang offers, with its first epoch, and keeps it: the bits depend on it. False: nothing has
// changed. `fleet_is_complete`: no worker that was there before a restart may still dial; until then who wants all
// waits.
bool TryToStart(JobDecision& decision, const Workers& workers, bool fleet_is_complete);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOBS_QUEUE_H_
