#include "tests/simulation/scenario.h"

namespace stagecoach::simulation {
namespace {

JobPlanned DrawJob(Random& random, uint32_t num_workers, absl::Duration latest) {
  JobPlanned job;
  job.at = random.Between(absl::ZeroDuration(), latest);
  job.degree = 1 + static_cast<uint32_t>(random.Below(num_workers));
  job.steps = 1 + random.Below(12);
  job.validation_interval = random.Below(4);
  const auto later = [&] { return job.at + random.Between(absl::ZeroDuration(), absl::Seconds(3)); };
  if (random.Chance(0.15)) job.cancel_at = later();
  if (random.Chance(0.2)) {
    job.pause_at = later();
    job.resume_at = job.pause_at + random.Between(absl::ZeroDuration(), absl::Seconds(3));
  }
  if (random.Chance(0.5)) job.follow_at = later();
  return job;
}

// What workers hold survives it, and they are back in time.
bool IsBenign(Fault fault) {
  return fault == Fault::kBreakSession || fault == Fault::kSlowDevice || fault == Fault::kCrashCoordinator ||
         fault == Fault::kLosePower || fault == Fault::kFillDisk || fault == Fault::kBreakFollowers;
}

}  // namespace

Scenario DrawScenario(Random& random) {
  Scenario scenario;
  scenario.num_workers = 1 + static_cast<uint32_t>(random.Below(4));
  scenario.fleet.lease = random.Chance(0.5) ? absl::Seconds(1) : absl::Seconds(3);
  scenario.fleet.reattach_timeout = random.Chance(0.5) ? absl::Seconds(3) : absl::Seconds(10);
  scenario.faults_end = random.Between(absl::Seconds(1), absl::Seconds(10));
  const uint64_t num_jobs = 1 + random.Below(3);
  for (uint64_t i = 0; i < num_jobs; ++i) {
    scenario.jobs.push_back(DrawJob(random, scenario.num_workers, scenario.faults_end));
  }
  scenario.benign = random.Chance(0.25);
  scenario.hostile = !scenario.benign && random.Chance(0.2);
  // Few kinds of faults, so that each has its time; in some runs only one.
  const double share = random.Chance(0.3) ? 0.06 : scenario.benign ? 0.5 : 0.3;
  for (int i = 0; i < kNumFaults; ++i) {
    const auto fault = static_cast<Fault>(i);
    if (random.Chance(share) && (IsBenign(fault) || !scenario.benign)) scenario.faults.push_back(fault);
  }
  scenario.mean_time_between_faults = random.Between(absl::Milliseconds(300), absl::Seconds(4));
  if (!scenario.benign && random.Chance(0.1)) scenario.planning_fails = 0.3;
  if (!scenario.benign && random.Chance(0.1)) scenario.files_fail = 0.3;
  scenario.slow_tasks = random.Chance(0.2);
  return scenario;
}

}  // namespace stagecoach::simulation
