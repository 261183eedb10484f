#include "tests/simulation/fault_injector.h"

#include <algorithm>
#include <array>
#include <utility>

namespace stagecoach::simulation {
namespace {

// From a death that is told to the end of the job.
constexpr absl::Duration kPromptly = absl::Seconds(1);
constexpr absl::Duration kLongestDeath = absl::Seconds(2);
constexpr absl::Duration kLongestStop = absl::Seconds(5);
// Phases of a job that are over soon: a fault waits for one of them now and then.
constexpr std::array kPhases = {Phase::kReattaching,     Phase::kReplanning,      Phase::kPlanning,
                                Phase::kPreparingStages, Phase::kConnectingPeers, Phase::kEvaluating,
                                Phase::kFinishing,       Phase::kMakingDirectory, Phase::kWritingShards,
                                Phase::kWritingManifest, Phase::kAborting,        Phase::kPaused};
constexpr double kChanceToWait = 0.4;
constexpr absl::Duration kLongestPause = absl::Milliseconds(20);
// Two crash points an effect, and a handful of effects a message.
constexpr uint64_t kFewCrashPoints = 12;
constexpr uint64_t kMostCrashPoints = 300;

}  // namespace

FaultInjector::FaultInjector(Surroundings surroundings, const Scenario& scenario, CoordinatorHost& coordinator,
                             std::vector<std::unique_ptr<WorkerHost>>& workers)
    : to_(surroundings), scenario_(scenario), coordinator_(coordinator), workers_(workers) {
  coordinator_.trouble = {.planning_fails = scenario_.planning_fails, .files_fail = scenario_.files_fail};
  if (scenario_.slow_tasks) coordinator_.trouble.slowest_task = absl::Seconds(2);
  to_.world.shards_fail = scenario_.files_fail / 3;
  to_.world.disks_hang = scenario_.disks_hang;
  to_.world.hostile = scenario_.hostile;
  to_.network.Tamper(scenario_.hostile);
  // Orders that come twice or in another order fail at either end of a transfer.
  if (scenario_.hostile) to_.world.suspects.SuspectAll();
  to_.world.scheduler.After(scenario_.faults_end, [this] { Heal(); });
  if (!scenario_.faults.empty()) ScheduleNext();
  to_.world.on_phase = [this](Phase phase) { OnPhase(phase); };
}

Fault FaultInjector::Draw() { return scenario_.faults[to_.world.random.Below(scenario_.faults.size())]; }

void FaultInjector::OnPhase(Phase phase) {
  if (healed_ || !awaited_.has_value() || awaited_->first != phase) return;
  const Fault fault = std::exchange(awaited_, std::nullopt)->second;
  to_.world.scheduler.After(to_.world.random.Between(absl::ZeroDuration(), kLongestPause), [this, fault] {
    if (!healed_) Inject(fault);
  });
}

void FaultInjector::ScheduleNext() {
  const absl::Duration wait = to_.world.random.Between(absl::Milliseconds(1), 2 * scenario_.mean_time_between_faults);
  to_.world.scheduler.After(wait, [this] {
    if (healed_) return;
    if (to_.world.random.Chance(kChanceToWait)) {
      awaited_ = {kPhases[to_.world.random.Below(kPhases.size())], Draw()};
    } else {
      Inject(Draw());
    }
    ScheduleNext();
  });
}

void FaultInjector::Inject(Fault fault) {
  if (fault >= Fault::kCrashCoordinator) return InjectIntoCoordinator(fault);
  InjectIntoWorker(fault, *workers_[to_.world.random.Below(workers_.size())]);
}

void FaultInjector::During(const std::string& worker, absl::Duration duration, std::function<void()> undo) {
  to_.world.suspects.Hold(worker, true, to_.world.now());
  to_.world.scheduler.After(duration, [this, worker, undo = std::move(undo)] {
    to_.world.suspects.Hold(worker, false, to_.world.now());
    undo();
  });
}

void FaultInjector::InjectIntoWorker(Fault fault, WorkerHost& host) {
  SimulatedWorker& worker = host.current();
  if (!worker.alive()) return;
  to_.world.Note("fault ", static_cast<int>(fault), ": worker ", worker.host());
  const bool is_fault = fault != Fault::kSlowDevice && fault != Fault::kSlowCommands && fault != Fault::kLoseTransfer;
  if (is_fault) to_.world.Touch(host.name());
  switch (fault) {
    case Fault::kKillWorker:
      return KillWorker(host, /*silent=*/false);
    case Fault::kLoseHost:
      return KillWorker(host, /*silent=*/true);
    case Fault::kStopWorker:
      return StopWorker(host);
    case Fault::kReplaceWorker:
      return host.Start();
    case Fault::kIsolateHost:
      return IsolateHost(host);
    case Fault::kBreakSession:
      return BreakSession(worker);
    case Fault::kBreakSilently:
      return to_.network.Break(worker.host(), /*silent=*/true);
    case Fault::kFlapNetwork:
      return FlapNetwork(worker);
    case Fault::kResetTransfers:
      SuspectAll();  // whoever notices
      return to_.data.Reset(host.name());
    case Fault::kIsolateTransfers:
      return IsolateTransfers(worker);
    case Fault::kHangDevice:
      return HangDevice(host);
    case Fault::kWedgeDevice:
      return WedgeDevice(host);
    case Fault::kFailDevice:
      worker.trouble().fails = true;
      return to_.world.suspects.Hold(host.name(), true, to_.world.now());  // whenever it happens
    case Fault::kLoseTransfer:
      return to_.data.LoseNextTo(host.name());
    case Fault::kSlowDevice:
      // Half of the shortest deadline of a hang.
      return SlowDown(host, &DeviceTrouble::slowness, absl::Seconds(1));
    case Fault::kSlowCommands:
      return SlowDown(host, &DeviceTrouble::command_slowness, absl::Seconds(1));
    case Fault::kLeave:
      worker.Leave();
      return StartWhenGone(host);
    default:
      return;
  }
}

void FaultInjector::BreakSession(const SimulatedWorker& worker) {
  // Who was broken off just before waits before it dials again: longer than the grace, perhaps.
  if (scenario_.benign && !worker.was_answered()) return;
  to_.network.Break(worker.host(), /*silent=*/false);
}

void FaultInjector::FlapNetwork(const SimulatedWorker& worker) {
  if (scenario_.benign && !worker.was_answered()) return;
  to_.data.Reset(worker.name());
  to_.network.Break(worker.host(), /*silent=*/false);
}

void FaultInjector::IsolateTransfers(const SimulatedWorker& worker) {
  const std::string name = worker.name();
  SuspectAll();
  to_.data.Isolate(name, true);
  During(name, to_.world.random.Between(absl::Milliseconds(10), kLongestStop), [this, name] {
    SuspectAll();
    to_.data.Isolate(name, false);
  });
}

void FaultInjector::SuspectAll() {
  for (const auto& host : workers_) to_.world.Touch(host->name());
}

void FaultInjector::ExpectGivenUp(const SimulatedWorker& worker, absl::Duration within) {
  // Who may be away itself promises nothing.
  const bool coordinator_is_there = std::all_of(scenario_.faults.begin(), scenario_.faults.end(), [](Fault fault) {
    return fault < Fault::kCrashCoordinator || fault == Fault::kBreakFollowers;
  });
  if (!coordinator_is_there || scenario_.hostile) return;
  to_.world.scheduler.After(within, [this, &worker] {
    for (const JobId& id : coordinator_.state().active_jobs()) {
      const auto& members = coordinator_.state().jobs().at(id).progress.members;
      if (members == nullptr) continue;
      for (const MemberId& member : *members) {
        if (member.worker.value() != worker.name() || member.incarnation != worker.incarnation()) continue;
        to_.world.violations.Report("bounds", absl::StrCat("job ", id.value(), " still reckons with ", worker.host()));
      }
    }
  });
}

void FaultInjector::KillWorker(WorkerHost& host, bool silent) {
  // A reset does not come through where the network has swallowed the session before.
  const bool is_told = !silent && !to_.network.HasDeafSession(host.current().host());
  ExpectGivenUp(host.current(), is_told ? kPromptly : scenario_.fleet.lease + kPromptly);
  host.current().Kill(silent);
  During(host.name(), to_.world.random.Between(absl::Milliseconds(10), kLongestDeath), [this, &host] {
    if (!host.current().alive() && !healed_) host.Start();
  });
}

void FaultInjector::StartWhenGone(WorkerHost& host) {
  to_.world.scheduler.After(to_.world.random.Between(absl::Milliseconds(100), absl::Seconds(2)), [this, &host] {
    if (host.current().alive()) return StartWhenGone(host);
    host.Start();
  });
}

void FaultInjector::StopWorker(WorkerHost& host) {
  SimulatedWorker& worker = host.current();
  worker.Stop();
  During(host.name(), to_.world.random.Between(absl::Milliseconds(10), kLongestStop), [&worker] { worker.Continue(); });
}

void FaultInjector::IsolateHost(WorkerHost& host) {
  const std::string machine = host.current().host();
  to_.network.Isolate(machine, true);
  During(host.name(), to_.world.random.Between(absl::Milliseconds(10), kLongestStop),
         [this, machine] { to_.network.Isolate(machine, false); });
}

void FaultInjector::HangDevice(WorkerHost& host) {
  SimulatedWorker& worker = host.current();
  worker.trouble().hangs = true;
  During(host.name(), to_.world.random.Between(absl::Milliseconds(100), absl::Seconds(3)),
         [&worker] { worker.trouble().hangs = false; });
}

void FaultInjector::WedgeDevice(WorkerHost& host) {
  SimulatedWorker& worker = host.current();
  worker.trouble().hangs = worker.trouble().wedged = true;
  During(host.name(), to_.world.random.Between(absl::Seconds(1), absl::Seconds(6)), [&host, &worker] {
    if (!worker.alive()) return;
    worker.Kill(/*silent=*/false);
    if (!host.current().alive()) host.Start();
  });
}

void FaultInjector::SlowDown(WorkerHost& host, absl::Duration DeviceTrouble::*what, absl::Duration most) {
  SimulatedWorker& worker = host.current();
  worker.trouble().*what = to_.world.random.Between(absl::Milliseconds(10), most);
  to_.world.scheduler.After(to_.world.random.Between(absl::Milliseconds(100), absl::Seconds(4)),
                            [&worker, what] { worker.trouble().*what = absl::ZeroDuration(); });
}

void FaultInjector::InjectIntoCoordinator(Fault fault) {
  SimulatedCoordinator* const coordinator = coordinator_.current();
  if (coordinator == nullptr) return;
  World& world = to_.world;
  world.Note("fault ", static_cast<int>(fault), ": coordinator");
  switch (fault) {
    case Fault::kCrashCoordinator:
      return coordinator->CrashAfter(1 +
                                     world.random.Below(world.random.Chance(0.5) ? kFewCrashPoints : kMostCrashPoints));
    case Fault::kLosePower:
      return coordinator_.LosePower();
    case Fault::kStopCoordinator:
      return coordinator_.Stop(world.random.Between(absl::Milliseconds(10), kLongestStop));
    case Fault::kFillDisk:
      return coordinator_.FillDisk(world.random.Between(absl::Milliseconds(10), absl::Seconds(1)));
    default:
      return coordinator->BreakFollowers();
  }
}

void FaultInjector::Heal() {
  healed_ = true;
  to_.world.Note("faults end");
  to_.network.Tamper(false);
  to_.network.BreakDamaged();
  coordinator_.Heal();
  to_.world.shards_fail = to_.world.disks_hang = 0;
  for (const auto& host : workers_) host->Heal();
}

}  // namespace stagecoach::simulation
