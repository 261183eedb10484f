#ifndef STAGECOACH_COORDINATOR_PROGRAM_SIMULATOR_H_
#define STAGECOACH_COORDINATOR_PROGRAM_SIMULATOR_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/schedule/schedule.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

struct TimedAction {
  v1::Action action;
  double start = 0;
  double end = 0;
  // Whose result came last of those that it waited for: its own stage when none crosses a cut.
  uint32_t input_stage = 0;
};

struct Timeline {
  std::vector<std::vector<TimedAction>> workers;  // in execution order
  double makespan = 0;                            // first start to last end
  double lower_bound = 0;                         // no order of these actions can be shorter (step_bound.h)
  double bubble_ratio_span = 0;                   // 1 - sum of busy / (workers x makespan)
  double bubble_ratio_device = 0;  // 1 - mean busy / longest interval of a worker from its first start to its last end
  // In micro-batches on one full stage (1 / num_workers of the model), held until their W has run; where there is an R,
  // not between F and R (the inputs that stay are not counted). [num_workers]
  std::vector<double> peak_activations;
  std::vector<double> peak_pending_weight;
};

// Times a compute-only table: every action starts when its worker is free and its input has arrived, which for an R is
// when its F has run; a hop between
// workers occupies its direction of the edge for `edge_seconds`, one transfer after another, then delays the receiver
// by `communication_seconds`, and never holds the sender up; a B's gradient leaves when the whole B ends, an I's when
// the I ends. What goes over skip edges leaves with them, and takes its time beside them. Workers of stages are those
// of the rows. Pure. INVALID_ARGUMENT: an action waits for one that never runs, a stage is on two workers or none, or a
// time is none (CheckTimes).
absl::StatusOr<Timeline> Simulate(const v1::ComputeTable& table, const ScheduleProblem& problem);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_SIMULATOR_H_
