#ifndef STAGECOACH_COORDINATOR_PLAN_JOB_CUT_H_
#define STAGECOACH_COORDINATOR_PLAN_JOB_CUT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/plan/schedule_choice.h"
#include "coordinator/plan/worker_profile.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/plan.pb.h"

namespace stagecoach {

// A schedule by name, with the stages of each worker.
struct NamedSchedule {
  std::string name;
  uint32_t num_chunks = 1;
};

// What `auto` does (docs/decisions/0009-schedule-choice.md).
struct PlanOptions {
  // That it chooses from, those that hold least first. zb_h2 is left out: a step that all stages commit together gains
  // nothing from it over zb_h1.
  std::vector<NamedSchedule> candidates = {{"1f1b", 1},        {"v_half", 2}, {"zb_h1", 1},      {"interleaved", 2},
                                           {"interleaved", 4}, {"zb_v", 2},   {"dualpipe_v", 2}, {"gpipe", 1}};
  // Whether an order is searched for the best of them, which takes up to a second. Without it, who only asks whether a
  // job can be planned, or how, has an answer that is the same or a little longer.
  bool searches_order = true;
};

// What a specification asks to be cut, for the first workers, as many as its degree says.
struct JobRequest {
  CutRequest cut;
  std::shared_ptr<const Schedule> given_order;  // that the specification has instead of a schedule's name; null: none
  std::vector<ScheduleOption> schedules;        // at least one; may point to that
  bool measured_costs = false;                  // of all layers
};
// With parallelism.schedule auto: the candidates that run with the stages that are asked for, by number or as a list,
// and with the number of micro-batches. One worker has no bubble to fill: it has those with one stage only. With
// parallelism.order: that alone.
absl::StatusOr<JobRequest> JobRequestOf(const v1::JobSpec& spec, const std::vector<WorkerProfile>& workers,
                                        const PlanOptions& options);

// A job cut for the best schedule that it may have, not lowered yet.
struct JobCut {
  v1::ModelGraph graph;
  ScheduleChoice choice;
  bool measured_costs = false;  // of all layers
};

// Pure. Errors: those of PlanJob; that of a job that does not fit says so and no more: see DoesNotFit.
absl::StatusOr<JobCut> CutJob(const v1::JobSpec& spec, const std::vector<WorkerProfile>& workers,
                              const PlanOptions& options);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PLAN_JOB_CUT_H_
