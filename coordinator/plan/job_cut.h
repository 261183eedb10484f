#ifndef STAGECOACH_COORDINATOR_PLAN_JOB_CUT_H_
#define STAGECOACH_COORDINATOR_PLAN_JOB_CUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/plan/schedule_choice.h"
#include "coordinator/plan/worker_profile.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/plan.pb.h"

namespace stagecoach {

struct PlanOptions {
  // That `auto` chooses from, by name: those that workers can run.
  std::vector<std::string> schedules = {"1f1b", "gpipe"};
};

// What a specification asks to be cut, for the first workers, as many as its degree says.
struct JobRequest {
  CutRequest cut;
  std::vector<const Schedule*> schedules;  // at least one
  uint32_t num_chunks = 0;                 // 0: what each schedule is made for
};
absl::StatusOr<JobRequest> JobRequestOf(const v1::JobSpec& spec, const std::vector<WorkerProfile>& workers,
                                        const PlanOptions& options);

// A job cut for the best schedule that it may have, not lowered yet.
struct JobCut {
  v1::ModelGraph graph;
  ScheduleChoice choice;
};

// Pure. Errors: those of PlanJob; that of a job that does not fit says so and no more: see DoesNotFit.
absl::StatusOr<JobCut> CutJob(const v1::JobSpec& spec, const std::vector<WorkerProfile>& workers,
                              const PlanOptions& options);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PLAN_JOB_CUT_H_
