#ifndef STAGECOACH_TESTS_BENCH_SCHEDULE_PREDICTION_H_
#define STAGECOACH_TESTS_BENCH_SCHEDULE_PREDICTION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/simulated_device.h"
#include "coordinator/schedule/schedule.h"

namespace stagecoach {

// A pipeline of stages of one transformer block each.
struct PipelineShape {
  uint32_t num_workers = 0;
  uint32_t num_chunks = 1;  // stages of a worker
  uint32_t num_micro_batches = 0;
  SimulatedCosts costs;    // of a block
  double hop_seconds = 0;  // from the end of an action to the start of one that waits for it on another worker
};

// Seconds are a step's, from the first action to the end of the last.
struct SchedulePrediction {
  // As workers run it: a backward is its I and its W, and the gradient leaves between the two.
  double seconds = 0;
  uint32_t num_path_actions = 0;  // of F, I and W on the critical path
  // Of one worker with all stages over the pipeline, with backwards in one piece and hops that take no time: what a
  // schedule's formulas say.
  double ideal_speed_up = 0;
};

// Errors of Schedule::Build and Simulate. Pure.
absl::StatusOr<SchedulePrediction> PredictSchedule(const Schedule& schedule, const PipelineShape& shape);

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_BENCH_SCHEDULE_PREDICTION_H_
