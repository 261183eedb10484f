#ifndef STAGECOACH_TESTS_SIMULATION_SCENARIO_H_
#define STAGECOACH_TESTS_SIMULATION_SCENARIO_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/fleet/fleet_options.h"
#include "coordinator/journal_compaction.h"
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
  kFlapNetwork,       // session and transfers are reset together
  kResetTransfers,    // the session lives on
  kIsolateTransfers,  // none is lost, none arrives
  kHangDevice,        // an instruction that never ends by itself
  kWedgeDevice,       // nor when it is interrupted; somebody kills the process
  kFailDevice,        //
  kLoseTransfer,      // of one tensor
  kSlowDevice,        // not a fault: nobody may be blamed for it
  kSlowCommands,      // nor for this: stages, updates and shards take long
  kLeave,             // SIGTERM
  kCrashCoordinator,  // at some point of some decision
  kLosePower,         // of the coordinator's host
  kStopCoordinator,
  kFillDisk,  // of the coordinator
  kBreakFollowers,
};
inline constexpr int kNumFaults = static_cast<int>(Fault::kBreakFollowers) + 1;

enum class Request { kCancel, kPause, kResume, kCheckpoint, kFollow, kSubmitAgain };
struct ClientCall {
  absl::Duration at;
  Request request;
};

struct JobPlanned {
  absl::Duration at;
  uint32_t degree = 1;
  uint64_t steps = 1;
  uint64_t validation_interval = 0;
  uint64_t checkpoint_interval = 0;  // steps; 0: only at the end
  bool checkpoints_behind_training = false;
  bool measured_costs = false;
  uint64_t hidden_size = 8;     // what costs are measured of
  bool automatic_size = false;  // of micro-batches
  std::vector<ClientCall> calls;
};

// What a seed stands for, but for the luck of each moment.
struct Scenario {
  uint32_t num_workers = 1;
  uint32_t num_classes = 1;                             // of numerics, which the workers have in turn
  std::optional<JournalCompaction::Limits> compaction;  // nullopt: as in the product, which is never reached here
  std::vector<JobPlanned> jobs;
  FleetOptions fleet;
  bool benign = false;        // faults that lose nothing: no job may fail by them
  bool hostile = false;       // messages are lost one by one, repeated, reordered
  std::vector<Fault> faults;  // of which one happens now and then
  absl::Duration mean_time_between_faults = absl::InfiniteDuration();
  absl::Duration faults_end;  // everything heals then
  double planning_fails = 0;
  double files_fail = 0;
  double disks_hang = 0;
  bool slow_tasks = false;
};

Scenario DrawScenario(Random& random);

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_SCENARIO_H_
