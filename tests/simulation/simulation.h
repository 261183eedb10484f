#ifndef STAGECOACH_TESTS_SIMULATION_SIMULATION_H_
#define STAGECOACH_TESTS_SIMULATION_SIMULATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/coverage.h"
#include "tests/simulation/planted_bug.h"

namespace stagecoach::simulation {

struct SimulationOptions {
  uint64_t seed = 0;
  PlantedBug bug = PlantedBug::kNone;
  bool print = false;  // every event to standard output
};

struct SimulationOutcome {
  std::optional<std::string> violation;  // the law that was broken, and how
  std::vector<std::string> last_events;
  uint64_t trace_hash = 0;
  uint64_t num_events = 0;
  double virtual_seconds = 0;
  // How the jobs ended.
  uint64_t num_succeeded = 0;
  uint64_t num_failed = 0;
  uint64_t num_cancelled = 0;
  uint64_t num_steps = 0;
  uint64_t num_recoveries = 0;  // epochs of a job after its first
  Coverage coverage;
};

// One run of coordinator, workers and clients under the faults that the seed stands for. The laws of architecture.md
// are checked after every event; when the faults have ended, every job must come to its end. A function of the options.
SimulationOutcome Simulate(const SimulationOptions& options);

// For a run that ends in abort(): prints the seed and the last events of the one under way.
void ReportOnAbort();

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_SIMULATION_H_
