#ifndef STAGECOACH_COORDINATOR_PLAN_MICRO_BATCH_SIZES_H_
#define STAGECOACH_COORDINATOR_PLAN_MICRO_BATCH_SIZES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "stagecoach/v1/job.pb.h"

namespace stagecoach {

// Of a specification that leaves the size to the planner.
bool ChoosesMicroBatchSize(const v1::JobSpec& spec);

// The sizes to choose from, ascending: divisors of the samples that a replica trains on in a step, few enough to plan
// with each, and with at least as many micro-batches as workers when there are that many samples: with fewer some
// worker is always idle. `num_workers`: that there are, of which a degree may use fewer. Empty: each divisor is too
// large, or makes too many micro-batches.
std::vector<uint64_t> MicroBatchSizes(const v1::JobSpec& spec, size_t num_workers);

// Of these, those whose costs are worth measuring: the smallest, one between and the largest.
std::vector<uint64_t> SizesToMeasure(const std::vector<uint64_t>& sizes);

v1::JobSpec WithMicroBatchSize(const v1::JobSpec& spec, uint64_t micro_batch_size);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PLAN_MICRO_BATCH_SIZES_H_
