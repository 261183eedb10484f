#ifndef STAGECOACH_TESTS_SIMULATION_WORLD_H_
#define STAGECOACH_TESTS_SIMULATION_WORLD_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "tests/simulation/checkpoint_files.h"
#include "tests/simulation/coverage.h"
#include "tests/simulation/planted_bug.h"
#include "tests/simulation/random.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/suspects.h"
#include "tests/simulation/trace.h"
#include "tests/simulation/violations.h"

namespace stagecoach::simulation {

// Of a disk: twice as long as a checkpoint may take.
inline constexpr absl::Duration kLongestHang = absl::Seconds(6);

// What all parts of one simulation share.
struct World {
  World(uint64_t seed, bool print, PlantedBug planted) : random(seed), scheduler(random), trace(print), bug(planted) {}

  absl::Duration now() const { return scheduler.now(); }
  template <typename... Parts>
  void Note(const Parts&... parts) {
    trace.Add(now(), absl::StrCat(parts...));
  }
  template <typename... Parts>
  void Cover(const Parts&... parts) {
    ++coverage[absl::StrCat(parts...)];
  }
  void Touch(const std::string& worker) { suspects.Touch(worker, now()); }

  Random random;
  Scheduler scheduler;
  Trace trace;
  Violations violations;
  Suspects suspects;
  Coverage coverage;
  std::function<void(Phase)> on_phase = [](Phase) {};  // a job has entered it
  const PlantedBug bug;
  CheckpointFiles files;
  double shards_fail = 0;  // of those that workers write
  double disks_hang = 0;   // of what is written of checkpoints
  bool hostile = false;    // the network loses, repeats and reorders single messages, or has done so
};

// The world's time, for code that reads a clock.
class WorldClock final : public Clock {
 public:
  explicit WorldClock(const World& world) : world_(world) {}
  absl::Duration Now() const override { return world_.now(); }

 private:
  const World& world_;
};

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_WORLD_H_
