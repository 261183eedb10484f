#ifndef STAGECOACH_TESTS_SIMULATION_PLAN_CATALOG_H_
#define STAGECOACH_TESTS_SIMULATION_PLAN_CATALOG_H_

#include <cstdint>
#include <memory>

#include "coordinator/jobs/job_record.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach::simulation {

inline constexpr uint64_t kNumTrainSamples = 22;  // a pass ends with a ragged step
inline constexpr uint64_t kNumValidationSamples = 6;
inline constexpr double kPlannedStepSeconds = 0.08;

// A small job; its data exist in PlanOf alone.
v1::JobSpec SmallSpec(const std::string& name, uint32_t degree, uint64_t steps, uint64_t validation_interval,
                      uint64_t seed);

// What planning gives for such a job on so many workers: programs that the real lowering made, one block a stage, with
// skip connections when the job's seed is even. Made once.
std::shared_ptr<const JobPlan> PlanOf(const v1::JobSpec& spec, uint32_t num_workers);

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_PLAN_CATALOG_H_
