#ifndef STAGECOACH_TESTS_SIMULATION_SCENARIO_H_
#define STAGECOACH_TESTS_SIMULATION_SCENARIO_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/fleet/fleet_options.h"
#include "tests/simulation/random.h"

namespace stagecoach::simulation {

enum class Fault {
  kKillWorker,        // its peers see their connections reset
  kLoseHost,          // they see nothing
  kStopWorker,        // for a while; it comes back as a zombie when that is longer than its lease
  kReplaceWorker,     // another process takes the name of one that lives
  kIsolateHost,       // nothing arrives for a while
  kBreakSession,      // the ends are told
  kBreakSilently,     // they are not
  kHangDevice,        // an instruction that never ends by itself
  kFailDevice,        //
  kLoseTransfer,      // of one tensor
  kSlowDevice,        // not a fault: nobody may be blamed for it
  kLeave,             // SIGTERM
  kCrashCoordinator,  // at some point of some decision
  kLosePower,         // of the coordinator's host
  kStopCoordinator,
  kFillDisk,  // of the coordinator
  kBreakFollowers,
};
inline constexpr int kNumFaults = static_cast<int>(Fault::kBreakFollowers) + 1;

struct JobPlanned {
  absl::Duration at;
  uint32_t degree = 1;
  uint64_t steps = 1;
  uint64_t validation_interval = 0;
  absl::Duration cancel_at = absl::InfiniteDuration();
  absl::Duration pause_at = absl::InfiniteDuration();
  absl::Duration resume_at = absl::InfiniteDuration();
  absl::Duration follow_at = absl::InfiniteDuration();  // by a second follower
};

// What a seed stands for, but for the luck of each moment.
struct Scenario {
  uint32_t num_workers = 1;
  std::vector<JobPlanned> jobs;
  FleetOptions fleet;
  bool benign = false;        // faults that lose nothing: no job may fail by them
  bool hostile = false;       // messages are lost one by one, repeated, reordered
  std::vector<Fault> faults;  // of which one happens now and then
  absl::Duration mean_time_between_faults = absl::InfiniteDuration();
  absl::Duration faults_end;  // everything heals then
  double planning_fails = 0;
  double files_fail = 0;
  bool slow_tasks = false;
};

Scenario DrawScenario(Random& random);

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_SCENARIO_H_
