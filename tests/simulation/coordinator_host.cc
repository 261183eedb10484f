#include "tests/simulation/coordinator_host.h"

#include <utility>

namespace stagecoach::simulation {
namespace {

constexpr absl::Duration kLongestRestart = absl::Seconds(3);

}  // namespace

CoordinatorHost::CoordinatorHost(Surroundings surroundings, const Scenario& scenario)
    : to_(surroundings), scenario_(scenario) {
  to_.network.Listen([this](const std::shared_ptr<Connection>& connection) {
    SimulatedCoordinator* const coordinator = current();
    return coordinator == nullptr ? ConnectionEnd<v1::WorkerMessage>() : coordinator->Accept(connection);
  });
  Start();
}

void CoordinatorHost::Start() {
  lives_.push_back(
      std::make_unique<SimulatedCoordinator>(to_.world, to_.laws, disk_, trouble, scenario_, [this] { StartLater(); }));
  lives_.back()->Start();
}

void CoordinatorHost::StartLater() {
  if (std::exchange(start_scheduled_, true)) return;
  const bool quickly = to_.world.random.Chance(0.5);
  to_.world.scheduler.After(
      to_.world.random.Between(absl::Milliseconds(5), quickly ? absl::Milliseconds(100) : kLongestRestart), [this] {
        start_scheduled_ = false;
        if (current() == nullptr) Start();
      });
}

void CoordinatorHost::LosePower() {
  if (SimulatedCoordinator* const coordinator = current()) coordinator->Kill();
  disk_.LosePower(to_.world.random);
  to_.laws.OnPowerLost(disk_.entries);
  StartLater();
}

void CoordinatorHost::Stop(absl::Duration duration) {
  SimulatedCoordinator* const coordinator = current();
  if (coordinator == nullptr || coordinator->stopped()) return;
  coordinator->Stop();
  to_.world.scheduler.After(duration, [coordinator] { coordinator->Continue(); });
}

void CoordinatorHost::FillDisk(absl::Duration duration) {
  disk_.is_full = true;
  to_.world.scheduler.After(duration, [this] { disk_.is_full = false; });
}

void CoordinatorHost::Heal() {
  trouble = {};
  disk_.is_full = false;
  if (SimulatedCoordinator* const coordinator = current()) {
    coordinator->Continue();
  } else {
    StartLater();
  }
}

}  // namespace stagecoach::simulation
