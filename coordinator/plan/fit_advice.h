#ifndef STAGECOACH_COORDINATOR_PLAN_FIT_ADVICE_H_
#define STAGECOACH_COORDINATOR_PLAN_FIT_ADVICE_H_

#include <vector>

#include "absl/status/status.h"
#include "coordinator/plan/job_cut.h"
#include "coordinator/plan/worker_profile.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach {

// For a job that is found too large for its workers. RESOURCE_EXHAUSTED with what lacks how many bytes, and "it
// fits with A, with B, or with C", where each is the smallest change of one kind with which it does:
// parallelism.activation_checkpointing selective, parallelism.partition auto, parallelism.schedule auto, more workers
// (with the memory of the smallest), a smaller training.micro_batch_size, checkpoint.async false. The number of workers
// is found by doubling and bisection: fewer may do as well, where more workers need more memory each. `error` is what
// planning said, and is said where the partitioner finds nothing amiss, since it knows transfers roughly. Pure; cuts
// the job some dozens of times.
absl::Status DoesNotFit(const v1::JobSpec& spec, const std::vector<WorkerProfile>& workers, const PlanOptions& options,
                        const absl::Status& error);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PLAN_FIT_ADVICE_H_
