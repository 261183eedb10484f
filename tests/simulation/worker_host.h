#ifndef STAGECOACH_TESTS_SIMULATION_WORKER_HOST_H_
#define STAGECOACH_TESTS_SIMULATION_WORKER_HOST_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/simulated_worker.h"

namespace stagecoach::simulation {

// A worker's name, and the processes that have it: one after another, and sometimes a new one beside an old one that
// somebody has given up.
class WorkerHost {
 public:
  WorkerHost(Surroundings surroundings, std::string name, std::string numerics_class)
      : to_(surroundings), name_(std::move(name)), numerics_class_(std::move(numerics_class)) {
    to_.laws.SetNumericsClass(name_, numerics_class_);
    Start();
  }

  void Start() {
    // Incarnations are random numbers: nothing may take a larger one for the newer.
    const uint64_t incarnation = 1 + to_.world.random.Below(1'000'000'000);
    to_.world.Note("worker ", name_, "/", incarnation, " starts");
    processes_.push_back(std::make_unique<SimulatedWorker>(to_, name_, incarnation, numerics_class_));
  }
  // The newest that lives, since a newer one may have had to give way to it; when none does, the newest.
  SimulatedWorker& current() {
    const auto living =
        std::find_if(processes_.rbegin(), processes_.rend(), [](const auto& one) { return one->alive(); });
    return living == processes_.rend() ? *processes_.back() : **living;
  }
  const std::vector<std::unique_ptr<SimulatedWorker>>& processes() const { return processes_; }
  const std::string& name() const { return name_; }

  // Whatever has happened to it: all its processes go on, and from now on one is there. It may have to give way to one
  // that has died since, and end: then another is started.
  void Heal() {
    for (const auto& process : processes_) {
      to_.network.Isolate(process->host(), false);
      // A device that is wedged stays so until somebody kills the process.
      if (!process->trouble().wedged) process->trouble() = {};
      if (process->alive() && process->stopped()) process->Continue();
    }
    to_.data.Isolate(name_, false);
    Supervise();
  }

 private:
  void Supervise() {
    if (!current().alive()) Start();
    to_.world.scheduler.After(absl::Seconds(1), [this] { Supervise(); });
  }

  const Surroundings to_;
  const std::string name_;
  const std::string numerics_class_;
  std::vector<std::unique_ptr<SimulatedWorker>> processes_;  // the newest last; the dead are kept: they are referred to
};

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_WORKER_HOST_H_
