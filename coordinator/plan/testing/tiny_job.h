#ifndef STAGECOACH_COORDINATOR_PLAN_TESTING_TINY_JOB_H_
#define STAGECOACH_COORDINATOR_PLAN_TESTING_TINY_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/plan/planner.h"
#include "coordinator/spec/job_spec_parser.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach::testing {

// examples/tiny.yaml, with some values replaced. A wrong one ends the process.
v1::JobSpec TinySpec(const std::vector<SpecOverride>& overrides = {});

// Bytes, on the worker that needs most.
uint64_t MostNeeded(const PlannedJob& job);

}  // namespace stagecoach::testing

#endif  // STAGECOACH_COORDINATOR_PLAN_TESTING_TINY_JOB_H_
