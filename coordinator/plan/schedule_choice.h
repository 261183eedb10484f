#ifndef STAGECOACH_COORDINATOR_PLAN_SCHEDULE_CHOICE_H_
#define STAGECOACH_COORDINATOR_PLAN_SCHEDULE_CHOICE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/plan/candidate_partitions.h"
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
  RecomputationChoice recomputation = RecomputationChoice::kNone;
  v1::PartitionSpec partition;
  uint32_t num_micro_batches = 0;
  std::vector<WorkerProfile> workers;  // all are used
  bool searches_order = false;         // for a better one than the best schedule has (searched_order.h)
};

// That recompute some of their layers. [num_stages]
std::vector<bool> RecomputingStages(const Partition& partition);

// A schedule, and the stages that each worker then has.
struct ScheduleOption {
  const Schedule* schedule = nullptr;
  uint32_t num_chunks = 1;
};

// A model cut for one schedule, and timed.
struct ScheduledCut {
  PartitionProblem problem;  // with the schedule's slots
  Partition partition;
  v1::ComputeTable table;
  bool is_searched = false;  // the table, which then follows from no schedule's name
  ScheduleProblem schedule_problem;
  double hop_bytes_per_second = 0;  // by which its transfers are timed
  Timeline timeline;
  double update_seconds = 0;
  uint64_t peak_bytes = 0;  // that the worker with most needs, at most

  double step_seconds() const { return timeline.makespan + update_seconds; }
};

// The partitioner's problem for a schedule whose stages have equal times. INVALID_ARGUMENT: the schedule does not run
// with so many chunks, or see CheckPartitionProblem.
absl::StatusOr<PartitionProblem> ProblemForSchedule(const CutRequest& request, const ScheduleOption& option);

// Cuts the layers for the micro-batches that the schedule's stages hold, then builds its table for their times, with R
// on the stages that recompute. A schedule that looks at times may then hold more: the layers are cut again, for the
// most seen, until it does not. Pure. INVALID_ARGUMENT: as above, or see PartitionAsAsked. RESOURCE_EXHAUSTED: it does
// not fit.
absl::StatusOr<ScheduledCut> CutForSchedule(const CutRequest& request, const ScheduleOption& option);

// A schedule that was tried.
struct ScheduleCandidate {
  std::string schedule;
  uint32_t num_chunks = 1;
  absl::Status status;  // not OK: why it cannot run here; there are no figures then
  double step_seconds = 0;
  double bubble_ratio = 0;
  uint64_t peak_bytes = 0;
  bool gains_too_little = false;  // an order that is shorter than what is chosen, by less than kLeastGainOfOrder
};

struct ScheduleChoice {
  ScheduledCut cut;                           // of the first candidate
  std::vector<ScheduleCandidate> candidates;  // best first; those that cannot run last, in the order of the options
};

// By how much a searched order must be shorter than the best schedule to be chosen in its place. It has a price: its
// table stays in the journal, and a name says more to people. Predictions are off by more than this, so that less is
// nothing that anybody would see.
inline constexpr double kLeastGainOfOrder = 0.002;

// What the workers need for a cut once it is lowered. The partitioner knows it roughly: the slots of transfers are
// lowering's, and the stages of one worker take turns in their buffers. [num_workers]. Its errors end the choice.
using LoweredBytes = std::function<absl::StatusOr<std::vector<uint64_t>>(const ScheduledCut& cut)>;

// Of the options the one with the least predicted step; of equals (to a billionth) the one whose worker with most
// memory needs least, then the one with fewer stages, then the first. With `lowered_bytes`, the best is lowered; if it
// lacks memory it is cut again, the partitioner's error of the last cut allowed for, and competes as what it then is.
// Where workers have several stages the partitioner reckons with too much, so that the fastest cut is lowered first; it
// is also where nothing fits by the partitioner's reckoning, and not by much.
// Then, if `request.searches_order`, an order is searched for the best cut: it is one more candidate, chosen if it is
// shorter by kLeastGainOfOrder and fits once it is lowered. The cut with which `lowered_bytes` is called last is the
// one that is chosen. Errors: that of the first option that does not fit, or else of the first.
absl::StatusOr<ScheduleChoice> ChooseSchedule(const CutRequest& request, const std::vector<ScheduleOption>& options,
                                              const LoweredBytes& lowered_bytes = nullptr);

// Whether any of the options fits, as ChooseSchedule finds without lowering; as much faster as the first that fits
// comes early.
bool SomeScheduleFits(const CutRequest& request, const std::vector<ScheduleOption>& options);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PLAN_SCHEDULE_CHOICE_H_
