#ifndef STAGECOACH_TESTS_SIMULATION_FAULT_INJECTOR_H_
#define STAGECOACH_TESTS_SIMULATION_FAULT_INJECTOR_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/coordinator_host.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/simulated_worker.h"
#include "tests/simulation/worker_host.h"

namespace stagecoach::simulation {

// Makes the faults of a scenario happen until they end, and heals everything then.
class FaultInjector {
 public:
  FaultInjector(Surroundings surroundings, const Scenario& scenario, CoordinatorHost& coordinator,
                std::vector<std::unique_ptr<WorkerHost>>& workers);

  bool healed() const { return healed_; }

 private:
  void ScheduleNext();
  Fault Draw();
  void Inject(Fault fault);
  void OnPhase(Phase phase);
  void InjectIntoWorker(Fault fault, WorkerHost& host);
  void InjectIntoCoordinator(Fault fault);
  void KillWorker(WorkerHost& host, bool silent);
  void BreakSession(const SimulatedWorker& worker);
  void StartWhenGone(WorkerHost& host);
  void StopWorker(WorkerHost& host);
  void IsolateHost(WorkerHost& host);
  void FlapNetwork(const SimulatedWorker& worker);
  void IsolateTransfers(const SimulatedWorker& worker);
  void HangDevice(WorkerHost& host);
  void WedgeDevice(WorkerHost& host);
  void SlowDown(WorkerHost& host, absl::Duration DeviceTrouble::*what, absl::Duration most);
  void ReplaceWorker(WorkerHost& host);
  void SuspectAll();
  // By then no job may reckon with this process any more.
  void ExpectGivenUp(const SimulatedWorker& worker, absl::Duration within);
  void Heal();
  // Until then, and for as long as the fault is felt, the worker may be blamed.
  void During(const std::string& worker, absl::Duration duration, std::function<void()> undo);

  const Surroundings to_;
  const Scenario& scenario_;
  CoordinatorHost& coordinator_;
  std::vector<std::unique_ptr<WorkerHost>>& workers_;
  bool healed_ = false;
  // The next fault, when it waits for a moment that is short.
  std::optional<std::pair<Phase, Fault>> awaited_;
};

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_FAULT_INJECTOR_H_
