#include "tests/simulation/scenario.h"

#include "tests/simulation/world.h"

namespace stagecoach::simulation {
namespace {

JobPlanned DrawJob(Random& random, uint32_t largest_gang, absl::Duration latest) {
  JobPlanned job;
  job.at = random.Between(absl::ZeroDuration(), latest);
  job.degree = static_cast<uint32_t>(random.Below(largest_gang + 1));  // 0: all there are
  job.steps = 1 + random.Below(random.Chance(0.2) ? 40 : 12);
  job.validation_interval = random.Below(4);
  job.checkpoint_interval = random.Below(5);
  job.checkpoints_behind_training = random.Chance(0.6);
  job.measured_costs = random.Chance(0.5);
  job.automatic_size = random.Chance(0.3);
  job.hidden_size = 8 * (1 + random.Below(2));
  const auto call = [&](Request request, double chance) {
    if (!random.Chance(chance)) return;
    job.calls.push_back({job.at + random.Between(absl::ZeroDuration(), absl::Seconds(3)), request});
  };
  call(Request::kFollow, 0.5);
  call(Request::kCancel, 0.15);
  call(Request::kSubmitAgain, 0.2);
  call(Request::kCheckpoint, 0.15);
  const uint64_t num_pauses = random.Chance(0.25) ? 1 + random.Below(3) : 0;
  for (uint64_t i = 0; i < num_pauses; ++i) {
    call(Request::kPause, 1);
    call(Request::kResume, 0.8);
  }
  return job;
}

// What workers hold survives it, and they are back in time.
bool IsBenign(Fault fault) {
  return fault == Fault::kBreakSession || fault == Fault::kFlapNetwork || fault == Fault::kSlowDevice ||
         fault == Fault::kSlowCommands || fault == Fault::kCrashCoordinator || fault == Fault::kLosePower ||
         fault == Fault::kFillDisk || fault == Fault::kBreakFollowers;
}

}  // namespace

Scenario DrawScenario(Random& random) {
  Scenario scenario;
  scenario.num_workers = 1 + static_cast<uint32_t>(random.Below(5));
  scenario.fleet.lease = random.Chance(0.5) ? absl::Seconds(1) : absl::Seconds(3);
  scenario.fleet.reattach_timeout = random.Chance(0.5) ? absl::Seconds(3) : absl::Seconds(10);
  scenario.fleet.profiling_timeout = absl::Seconds(3);
  scenario.faults_end = random.Between(absl::Seconds(1), absl::Seconds(20));
  if (random.Chance(0.2)) scenario.num_classes = 2;
  const uint32_t largest_gang = (scenario.num_workers + scenario.num_classes - 1) / scenario.num_classes;
  if (random.Chance(0.3)) {
    scenario.compaction = JournalCompaction::Limits{
        .steps_of_active_job = 1 + random.Below(8), .steps_of_ended_job = 1 + random.Below(3), .least_dropped = 1};
  }
  const uint64_t num_jobs = 1 + random.Below(5);
  for (uint64_t i = 0; i < num_jobs; ++i) {
    scenario.jobs.push_back(DrawJob(random, largest_gang, scenario.faults_end));
  }
  scenario.benign = random.Chance(0.25);
  scenario.hostile = !scenario.benign && random.Chance(0.2);
  // Few kinds of faults, so that each has its time; in some runs only one.
  const double share = random.Chance(0.3) ? 0.06 : scenario.benign ? 0.5 : 0.3;
  for (int i = 0; i < kNumFaults; ++i) {
    const auto fault = static_cast<Fault>(i);
    if (random.Chance(share) && (IsBenign(fault) || !scenario.benign)) scenario.faults.push_back(fault);
  }
  scenario.mean_time_between_faults = random.Between(absl::Milliseconds(100), absl::Seconds(4));
  if (!scenario.benign && random.Chance(0.1)) scenario.planning_fails = 0.3;
  if (!scenario.benign && random.Chance(0.1)) scenario.files_fail = 0.3;
  scenario.fleet.checkpoint_timeout = kLongestHang / 2;
  if (random.Chance(0.2)) scenario.disks_hang = 0.3;
  scenario.slow_tasks = random.Chance(0.2);
  return scenario;
}

}  // namespace stagecoach::simulation
