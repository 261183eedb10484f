#include "coordinator/descriptions.h"

#include <algorithm>
#include <vector>

#include "coordinator/fleet/worker_record.h"

namespace stagecoach {

v1::ListJobsResponse ListJobs(const State& state) {
  std::vector<const JobRecord*> jobs;
  for (const auto& [id, job] : state.jobs()) jobs.push_back(&job);
  std::sort(jobs.begin(), jobs.end(),
            [](const JobRecord* a, const JobRecord* b) { return a->history.submitted_at < b->history.submitted_at; });
  v1::ListJobsResponse response;
  for (const JobRecord* job : jobs) {
    v1::Job& description = *response.add_jobs();
    description = DescribeJob(*job);
    description.clear_spec();
    description.clear_plan();
    description.clear_placement();
  }
  return response;
}

v1::ListWorkersResponse ListWorkers(const State& state, absl::Duration now) {
  v1::ListWorkersResponse response;
  for (const auto& [id, worker] : state.workers()) {
    v1::WorkerDescription& description = *response.add_workers();
    description = Describe(worker, now);
    if (!worker.job.has_value()) continue;
    description.set_job(worker.job->value());
    const JobRecord& job = state.jobs().at(*worker.job);
    const auto rank = RankOf(job, worker.id, worker.incarnation);
    if (!rank.has_value() || !HasEpoch(job.progress)) continue;
    for (const uint32_t stage : StagesOf(job.history, *rank)) description.add_stages(stage);
  }
  return response;
}

}  // namespace stagecoach
