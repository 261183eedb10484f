#ifndef STAGECOACH_COORDINATOR_PLAN_SCHEDULE_CHOICE_H_
#define STAGECOACH_COORDINATOR_PLAN_SCHEDULE_CHOICE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/plan/cost_model.h"
#include "coordinator/plan/partition.h"
#include "coordinator/plan/worker_profile.h"
#include "coordinator/program/simulator.h"
#include "coordinator/schedule/schedule.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/plan.pb.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// What is to be cut, and for whom.
struct CutRequest {
  v1::ModelGraph graph;
  std::vector<LayerSeconds> seconds;  // [num_layers] on the first worker
  StateOptions state;
  v1::PartitionSpec partition;
  uint32_t num_micro_batches = 0;
  std::vector<WorkerProfile> workers;  // all are used
};

// A model cut for one schedule, and timed.
struct ScheduledCut {
  PartitionProblem problem;  // with the schedule's slots
  Partition partition;
  v1::ComputeTable table;
  ScheduleProblem schedule_problem;
  Timeline timeline;
  double update_seconds = 0;
  uint64_t peak_bytes = 0;  // that the worker with most needs, at most

  double step_seconds() const { return timeline.makespan + update_seconds; }
};

// The partitioner's problem for a schedule whose stages have equal times. INVALID_ARGUMENT: the schedule does not run
// with so many chunks, or see CheckPartitionProblem.
absl::StatusOr<PartitionProblem> ProblemForSchedule(const CutRequest& request, const Schedule& schedule,
                                                    uint32_t num_chunks);

// Cuts the layers for the micro-batches that the schedule's stages hold, then builds its table for their times. A
// schedule that looks at times may then hold more: the layers are cut again, for the most seen, until it does not.
// Pure. INVALID_ARGUMENT: as above, or see PartitionAsAsked. RESOURCE_EXHAUSTED: it does not fit.
absl::StatusOr<ScheduledCut> CutForSchedule(const CutRequest& request, const Schedule& schedule, uint32_t num_chunks);

// A schedule that was tried.
struct ScheduleCandidate {
  std::string schedule;
  uint32_t num_chunks = 1;
  absl::Status status;  // not OK: why it cannot run here; there are no figures then
  double step_seconds = 0;
  double bubble_ratio = 0;
  uint64_t peak_bytes = 0;
};

struct ScheduleChoice {
  ScheduledCut cut;
  size_t chosen = 0;                          // of the candidates
  std::vector<ScheduleCandidate> candidates;  // in the order of `schedules`
};

// Of the schedules, each with `num_chunks` stages per worker (0: as many as it is made for), the one with the least
// predicted step; of equals (to a billionth) the one whose worker with most memory needs least, then the first. Errors:
// that of the first schedule that does not fit, or else of the first.
absl::StatusOr<ScheduleChoice> ChooseSchedule(const CutRequest& request, const std::vector<const Schedule*>& schedules,
                                              uint32_t num_chunks);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PLAN_SCHEDULE_CHOICE_H_
