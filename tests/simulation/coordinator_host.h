#ifndef STAGECOACH_TESTS_SIMULATION_COORDINATOR_HOST_H_
#define STAGECOACH_TESTS_SIMULATION_COORDINATOR_HOST_H_

#include <memory>
#include <vector>

#include "tests/simulation/scenario.h"
#include "tests/simulation/simulated_coordinator.h"
#include "tests/simulation/simulated_journal.h"
#include "tests/simulation/simulated_worker.h"

namespace stagecoach::simulation {

// The host that the coordinator runs on: its disk outlives it, and somebody starts it again.
class CoordinatorHost {
 public:
  CoordinatorHost(Surroundings surroundings, const Scenario& scenario);

  // The one that answers; null: none does.
  SimulatedCoordinator* current() { return lives_.empty() || !lives_.back()->alive() ? nullptr : lives_.back().get(); }
  // The last one, dead or alive.
  const State& state() const { return lives_.back()->state(); }

  void Start();
  // It is started again after a while.
  void LosePower();
  void Stop(absl::Duration duration);
  void FillDisk(absl::Duration duration);
  void Heal();

  CoordinatorTrouble trouble;

 private:
  void StartLater();

  const Surroundings to_;
  const Scenario& scenario_;
  SimulatedDisk disk_;
  bool start_scheduled_ = false;
  std::vector<std::unique_ptr<SimulatedCoordinator>> lives_;  // the dead are kept: streams refer to them
};

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_COORDINATOR_HOST_H_
