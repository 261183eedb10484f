#include "tests/integration/embedded_job.h"

#include <gtest/gtest.h>

#include <variant>

#include "coordinator/jobs/job_state.h"
#include "tests/testing/embedded/embedded_run.h"
#include "worker/registry/device/device_registry.h"

namespace stagecoach {

std::vector<double> EmbeddedJob::Result::losses() const {
  std::vector<double> losses;
  for (const v1::StepEvent& step : steps) losses.push_back(step.loss());
  return losses;
}

std::vector<double> EmbeddedJob::Result::validation_losses() const {
  std::vector<double> losses;
  for (const v1::StepEvent& step : steps) {
    if (step.has_validation_loss()) losses.push_back(step.validation_loss());
  }
  return losses;
}

EmbeddedJob::Result EmbeddedJob::Run(uint32_t workers) { return Run(workers, *FindDevice("cpu")); }

EmbeddedJob::Result EmbeddedJob::Run(uint32_t workers, DeviceFactory device) {
  Result result;
  v1::JobSpec spec = this->spec();
  spec.mutable_resources()->set_workers(workers);
  EmbeddedRun::Options options{
      .num_workers = workers, .device = std::move(device), .worker_memory_bytes = worker_memory_bytes};
  const absl::StatusOr<std::unique_ptr<EmbeddedRun>> run = EmbeddedRun::Start(spec, options);
  EXPECT_TRUE(run.ok()) << run.status();
  if (!run.ok()) return result;
  for (;;) {
    const absl::StatusOr<FollowEvent> event = (*run)->NextEvent(absl::Minutes(2));
    EXPECT_TRUE(event.ok()) << event.status();
    if (!event.ok() || std::holds_alternative<absl::Status>(*event)) return result;
    if (const auto* step = std::get_if<v1::StepEvent>(&*event)) {
      result.steps.push_back(*step);
    } else {
      result.statuses.push_back(std::get<v1::JobStatus>(*event));
      if (HasEnded(result.statuses.back().state())) break;
    }
  }
  const absl::StatusOr<v1::Job> job = (*run)->Describe();
  EXPECT_TRUE(job.ok()) << job.status();
  if (job.ok()) result.job = *job;
  return result;
}

}  // namespace stagecoach
