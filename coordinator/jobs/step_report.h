#ifndef STAGECOACH_COORDINATOR_JOBS_STEP_REPORT_H_
#define STAGECOACH_COORDINATOR_JOBS_STEP_REPORT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/journal.pb.h"
#include "stagecoach/v1/plan.pb.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

struct StepMeasurement {
  uint64_t tokens = 0;
  double seconds = 0;  // from RunStep to the verdict, which is from commit to commit but for evaluations
};

// What followers see of a step. A worker is busy while it computes, updates or posts, not while it waits; the stages of
// one worker share its utilization. Ratios that cannot be told (no time has passed) are 0. `votes` by worker rank.
// Pure.
v1::StepEvent ReportStep(const v1::CommitRecord& record, const v1::Plan& plan,
                         const std::vector<std::shared_ptr<const v1::StepPrepared>>& votes,
                         const StepMeasurement& measurement);

// The event of a journalled step; what is known from its record when it was learned from a worker. Pure.
v1::StepEvent EventOfStep(const v1::StepCommitted& committed, const v1::JobSpec& spec);

// Whether an evaluation may follow the step, as far as the specification goes: after each training.validation_interval
// steps and after the last one.
bool IsEvaluatedStep(const v1::JobSpec& spec, uint64_t step);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOBS_STEP_REPORT_H_
