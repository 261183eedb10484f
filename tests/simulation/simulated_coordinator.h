#ifndef STAGECOACH_TESTS_SIMULATION_SIMULATED_COORDINATOR_H_
#define STAGECOACH_TESTS_SIMULATION_SIMULATED_COORDINATOR_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/event_log.h"
#include "coordinator/followers.h"
#include "coordinator/jobs/effect.h"
#include "coordinator/jobs/input.h"
#include "coordinator/log_book.h"
#include "coordinator/state.h"
#include "stagecoach/v1/coordinator.pb.h"
#include "tests/simulation/follow_stream.h"
#include "tests/simulation/job_laws.h"
#include "tests/simulation/network.h"
#include "tests/simulation/process.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/simulated_journal.h"
#include "tests/simulation/world.h"

namespace stagecoach::simulation {

// What goes wrong around a coordinator.
struct CoordinatorTrouble {
  double planning_fails = 0;
  double files_fail = 0;
  absl::Duration slowest_task = absl::Milliseconds(50);
};

// One life of the coordinator daemon: the loop of coordinator.cc and the effects of effect_runner.cc in virtual time,
// around the real Decide, State, EventLog and Followers. It can end between any two effects.
class SimulatedCoordinator {
 public:
  // `on_death`: it has ended by itself, at a crash point or since its journal could not be written.
  SimulatedCoordinator(World& world, JobLaws& laws, SimulatedDisk& disk, const CoordinatorTrouble& trouble,
                       const Scenario& scenario, std::function<void()> on_death);

  // Replays the journal and begins.
  void Start();
  // After so many more crash points, of which there are two an effect.
  void CrashAfter(uint64_t num_points) { points_to_crash_ = num_points; }
  void Kill();
  void Stop() { process_.Stop(); }
  void Continue() { process_.Continue(); }
  bool alive() const { return process_.alive(); }
  bool stopped() const { return process_.stopped(); }

  ConnectionEnd<v1::WorkerMessage> Accept(const std::shared_ptr<Connection>& accepted);
  // Answered once; UNAVAILABLE when the coordinator dies first.
  using Answer = std::function<void(const absl::StatusOr<JobId>&)>;
  void Ask(std::function<Input(uint64_t)> make_input, Answer answer);
  // What clients may see at any time.
  void Look() const;
  void Follow(const v1::FollowJobRequest& request, std::shared_ptr<FollowStream> stream);
  void BreakFollowers();

  const State& state() const { return state_; }

 private:
  struct Item {
    absl::Duration arrived;
    std::function<void()> run;
  };

  absl::Status Replay();
  void Post(std::function<void()> run);
  void SchedulePump();
  void Pump();
  void ScheduleDeadline();
  void Handle(const Input& input);
  Input WithPlantedBug(const Input& input) const;
  void Run(Decision& decision);
  // Whether the process ends here.
  bool DiesHere();
  void Die();
  absl::Status Append(v1::JournalEntry entry, CoordinatorTerm term);
  void Record(const v1::JournalEntry& entry);
  // Runs the task for a while elsewhere, and puts its result into the queue.
  void RunElsewhere(std::function<Input()> task, absl::Duration delay = absl::ZeroDuration());
  // How long a disk does not answer.
  absl::Duration DrawHang();

  void RunEffect(AppendEntry& effect);
  void RunEffect(ObserveFact& effect) { state_.Observe(effect); }
  void RunEffect(SendToWorker& effect);
  void RunEffect(EndSession& effect);
  void RunEffect(StartPlanning& effect);
  void RunEffect(MakeDirectory& effect);
  void RunEffect(WriteManifest& effect);
  void RunEffect(AbandonManifest& effect) { abandoned_.insert({effect.job, effect.attempt}); }
  void RunEffect(RemoveDirectory& effect) { world_.files.Remove(effect.directory); }
  void RunEffect(PruneOldCheckpoints& effect);
  void RunEffect(BeginTraceReading&) {}
  void RunEffect(TakeTracePart&) {}
  void RunEffect(StepMeasured& effect);
  void RunEffect(KeepLogLines& effect);
  void RunEffect(AnswerRequest& effect);
  void RunEffect(RequestTick&) { consequences_.push_back(Tick{}); }

  void NoteDecision(const Input& input, const Decision& decision);
  void CheckFence(const WorkerSaid& said, const Decision& decision);
  void CheckLeases();
  void TellPhases();
  void CoverSessionEnd(SessionId session);

  World& world_;
  JobLaws& laws_;
  const CoordinatorTrouble& trouble_;
  const JournalCompaction::Limits compaction_;
  const std::function<void()> on_death_;
  Process process_;
  SimulatedStore store_;
  State state_;
  EventLog event_log_;
  LogBook log_book_;
  Followers followers_;
  std::deque<Item> queue_;
  bool pump_scheduled_ = false;
  absl::Duration wakes_at_ = absl::InfiniteDuration();
  std::optional<uint64_t> points_to_crash_;
  std::vector<Input> consequences_;
  uint64_t last_session_ = 0;
  uint64_t last_request_ = 0;
  uint64_t last_follower_ = 0;
  std::set<std::pair<JobId, uint64_t>> abandoned_;  // manifests
  std::map<SessionId, std::shared_ptr<Connection>> sessions_;
  std::map<uint64_t, Answer> unanswered_;
  std::map<JobId, Phase> phases_;
  std::vector<std::weak_ptr<FollowStream>> streams_;
};

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_SIMULATED_COORDINATOR_H_
