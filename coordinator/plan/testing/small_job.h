#ifndef STAGECOACH_COORDINATOR_PLAN_TESTING_SMALL_JOB_H_
#define STAGECOACH_COORDINATOR_PLAN_TESTING_SMALL_JOB_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "coordinator/plan/schedule_choice.h"
#include "coordinator/plan/worker_profile.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach::testing {

// A GPT-2 of 16 blocks, with adamw; schedule and partition are auto.
v1::JobSpec SmallJobSpec(uint64_t global_batch_size, uint64_t micro_batch_size);

// All alike. 0: no limit.
std::vector<WorkerProfile> EqualWorkers(size_t count, uint64_t memory_bytes = 0);

// What such a job asks of all the workers.
CutRequest SmallCutRequest(const std::vector<WorkerProfile>& workers, uint32_t num_micro_batches = 16);

}  // namespace stagecoach::testing

#endif  // STAGECOACH_COORDINATOR_PLAN_TESTING_SMALL_JOB_H_
