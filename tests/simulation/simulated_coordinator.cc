#include "tests/simulation/simulated_coordinator.h"

#include <algorithm>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "coordinator/deadlines.h"
#include "coordinator/decide.h"
#include "coordinator/descriptions.h"
#include "coordinator/jobs/job_events.h"
#include "coordinator/jobs/job_state.h"
#include "tests/simulation/plan_catalog.h"

namespace stagecoach::simulation {
namespace {

constexpr absl::Duration kLongestTurn = absl::Microseconds(100);  // from one input to the next

SyncMode SyncModeOf(const v1::JournalEntry& entry) {
  const bool is_about_fleet = entry.has_worker_joined() || entry.has_worker_left();
  const bool is_made_again = entry.has_step_committed() || entry.has_evaluation_completed();
  return is_about_fleet || is_made_again ? SyncMode::kBuffered : SyncMode::kSynced;
}

// Not what is known of a worker.
bool TouchesJob(const Effect& effect) {
  if (std::holds_alternative<RequestTick>(effect)) return false;
  const auto* observed = std::get_if<ObserveFact>(&effect);
  return observed == nullptr || std::holds_alternative<ProgressChanged>(observed->fact);
}

bool IsAboutJob(const v1::WorkerMessage& message) {
  return !message.has_hello() && !message.has_heartbeat() && !message.has_leaving() && !message.has_log_lines();
}

}  // namespace

SimulatedCoordinator::SimulatedCoordinator(World& world, JobLaws& laws, SimulatedDisk& disk,
                                           const CoordinatorTrouble& trouble, const Scenario& scenario,
                                           std::function<void()> on_death)
    : world_(world),
      laws_(laws),
      trouble_(trouble),
      compaction_(scenario.compaction.value_or(JournalCompaction::Limits{})),
      on_death_(std::move(on_death)),
      process_(world.scheduler),
      store_(world, laws, disk),
      state_(scenario.fleet),
      followers_(event_log_, log_book_) {}

absl::Status SimulatedCoordinator::Replay() {
  JournalCompaction compaction(compaction_);
  STAGECOACH_RETURN_IF_ERROR(store_.ReadAll([&](const v1::JournalEntry& entry) {
    if (absl::Status status = state_.Check(entry); !status.ok()) return status;
    state_.Apply(entry);
    Record(entry);
    compaction.Count(entry);
    return absl::OkStatus();
  }));
  if (!compaction.IsWorthwhile()) return absl::OkStatus();
  std::vector<v1::JournalEntry> kept;
  STAGECOACH_RETURN_IF_ERROR(store_.ReadAll([&](const v1::JournalEntry& entry) {
    std::optional<v1::JournalEntry> left = compaction.Keep(entry);
    if (left.has_value()) kept.push_back(*std::move(left));
    return absl::OkStatus();
  }));
  store_.Snapshot(kept, state_.last_sequence()).IgnoreError();
  return absl::OkStatus();
}

void SimulatedCoordinator::Start() {
  const absl::Status replayed = Replay();
  if (!replayed.ok()) return world_.violations.Report("journal", replayed.message());
  world_.Note("coordinator: term ", state_.term().value() + 1, " begins");
  v1::JournalEntry started;
  started.mutable_coordinator_started();
  if (!Append(started, CoordinatorTerm(state_.term().value() + 1)).ok()) return Die();
  Handle(Restarted{});
  if (alive()) ScheduleDeadline();
}

void SimulatedCoordinator::Kill() {
  if (!process_.alive()) return;
  for (const JobId& id : state_.active_jobs()) {
    world_.Cover("the coordinator died while ", PhaseName(state_.jobs().at(id).progress.phase));
  }
  process_.Kill();
  for (const auto& [id, connection] : std::exchange(sessions_, {})) connection->Break(/*silent=*/false);
  for (const auto& [id, answer] : std::exchange(unanswered_, {}))
    answer(absl::UnavailableError("the coordinator died"));
  BreakFollowers();
}

void SimulatedCoordinator::Die() {
  Kill();
  on_death_();
}

bool SimulatedCoordinator::DiesHere() {
  if (!process_.alive()) return true;
  if (!points_to_crash_.has_value() || --*points_to_crash_ > 0) return false;
  world_.Note("coordinator: dies here");
  Die();
  return true;
}

// What the connection calls does not hold the connection: it could not end.
ConnectionEnd<v1::WorkerMessage> SimulatedCoordinator::Accept(const std::shared_ptr<Connection>& accepted) {
  const SessionId session(++last_session_);
  return {.on_message =
              [this, session, weak = std::weak_ptr<Connection>(accepted),
               opened = false](v1::WorkerMessage message) mutable {
                if (!process_.alive()) return;
                // Later ones open nothing.
                if (!message.has_hello() || std::exchange(opened, true)) {
                  return Post([this, said = WorkerSaid{session, std::move(message)}] { Handle(said); });
                }
                Post([this, session, connection = weak.lock(), message = std::move(message)] {
                  sessions_[session] = connection;
                  Handle(WorkerConnected{WorkerId(message.hello().worker()), Incarnation(message.fence().incarnation()),
                                         session, message.hello()});
                });
              },
          .on_end =
              [this, session](const absl::Status& why) {
                if (!process_.alive()) return;
                Post([this, session, why] {
                  sessions_.erase(session);
                  Handle(SessionEnded{session, why});
                });
              }};
}

void SimulatedCoordinator::Ask(std::function<Input(uint64_t)> make_input, Answer answer) {
  const uint64_t request = ++last_request_;
  unanswered_[request] = std::move(answer);
  Post([this, request, make_input = std::move(make_input)] { Handle(make_input(request)); });
}

void SimulatedCoordinator::Look() const {
  const v1::ListJobsResponse jobs = ListJobs(state_);
  const v1::ListWorkersResponse workers = ListWorkers(state_, process_.now());
  for (const auto& [id, job] : state_.jobs()) DescribeJob(job);
  if (static_cast<size_t>(jobs.jobs_size()) != state_.jobs().size())
    world_.violations.Report("lists", "a job is missing");
  if (static_cast<size_t>(workers.workers_size()) != state_.workers().size()) {
    world_.violations.Report("lists", "a worker is missing");
  }
}

void SimulatedCoordinator::Follow(const v1::FollowJobRequest& request, std::shared_ptr<FollowStream> stream) {
  streams_.push_back(stream);
  Look();
  Post([this, request, stream] {
    const auto job = state_.jobs().find(JobId(request.job()));
    if (job == state_.jobs().end()) return stream->End(absl::NotFoundError("there is no such job"));
    followers_.Add(FollowerId(++last_follower_), request, StatusOf(job->second), HasEnded(job->second.history.state),
                   {.on_event = [stream](const v1::JobEvent& event) { return stream->Send(event); },
                    .on_end = [stream](const absl::Status& why) { stream->End(why); }});
  });
}

void SimulatedCoordinator::BreakFollowers() {
  for (const auto& weak : std::exchange(streams_, {})) {
    if (const auto stream = weak.lock()) stream->Break();
  }
}

void SimulatedCoordinator::Post(std::function<void()> run) {
  // Whoever takes it from the network for the coordinator stands still with it.
  process_.After(absl::ZeroDuration(), [this, run = std::move(run)]() mutable {
    queue_.push_back({process_.now(), std::move(run)});
    SchedulePump();
  });
}

void SimulatedCoordinator::SchedulePump() {
  if (std::exchange(pump_scheduled_, true)) return;
  process_.After(world_.random.Between(absl::Microseconds(1), kLongestTurn), [this] {
    pump_scheduled_ = false;
    Pump();
  });
}

void SimulatedCoordinator::Pump() {
  const absl::Duration deadline = NextDeadline(state_);
  if (queue_.empty()) {
    if (process_.now() >= deadline) Handle(Tick{});
  } else {
    const Item item = std::move(queue_.front());
    queue_.pop_front();
    if (item.arrived >= deadline) Handle(Tick{});
    if (alive()) item.run();
  }
  if (!alive()) return;
  followers_.Pump();
  if (!queue_.empty()) SchedulePump();
  ScheduleDeadline();
}

void SimulatedCoordinator::ScheduleDeadline() {
  const absl::Duration deadline = NextDeadline(state_);
  if (deadline == absl::InfiniteDuration() || deadline >= wakes_at_) return;
  wakes_at_ = deadline;
  process_.After(deadline - process_.now(), [this] {
    wakes_at_ = absl::InfiniteDuration();
    SchedulePump();
  });
}

void SimulatedCoordinator::Handle(const Input& input) {
  std::vector<Input> inputs = {input};
  for (size_t i = 0; i < inputs.size() && alive(); ++i) {
    const Input one = inputs[i];
    Decision decision = Decide(process_.now(), state_, WithPlantedBug(one));
    NoteDecision(one, decision);
    if (const auto* ended = std::get_if<SessionEnded>(&one)) CoverSessionEnd(ended->session);
    if (const auto* said = std::get_if<WorkerSaid>(&one)) CheckFence(*said, decision);
    Run(decision);
    std::vector<Input> more = std::exchange(consequences_, {});
    std::move(more.begin(), more.end(), std::back_inserter(inputs));
  }
  if (!alive()) return;
  CheckLeases();
  TellPhases();
}

void SimulatedCoordinator::TellPhases() {
  for (const JobId& id : state_.active_jobs()) {
    const Phase phase = state_.jobs().at(id).progress.phase;
    if (std::exchange(phases_[id], phase) != phase) world_.on_phase(phase);
  }
}

Input SimulatedCoordinator::WithPlantedBug(const Input& input) const {
  const auto* said = std::get_if<WorkerSaid>(&input);
  if (world_.bug != PlantedBug::kAcceptOldEpoch || said == nullptr) return input;
  WorkerSaid altered = *said;
  v1::Fence& fence = *altered.message.mutable_fence();
  const auto job = state_.jobs().find(JobId(fence.job()));
  if (job != state_.jobs().end()) fence.set_epoch(std::max(fence.epoch(), job->second.history.epoch.value()));
  return altered;
}

void SimulatedCoordinator::Run(Decision& decision) {
  for (Effect& effect : decision.effects) {
    if (DiesHere()) return;
    std::visit([this](auto& typed) { RunEffect(typed); }, effect);
  }
  if (alive()) followers_.Pump();
}

void SimulatedCoordinator::NoteDecision(const Input& input, const Decision& decision) {
  if (absl::EndsWith(decision.reason, "the checkpoint is late")) world_.Cover("a checkpoint was late");
  if (decision.reason == "heartbeat" || std::holds_alternative<Tick>(input)) {
    if (decision.effects.size() <= 2) return;
  }
  const auto* said = std::get_if<WorkerSaid>(&input);
  if (said == nullptr) return world_.Note("coordinator: ", decision.reason);
  const WorkerRecord* worker = state_.FindWorker(said->session);
  world_.Note("coordinator: ", worker == nullptr ? "nobody" : worker->id.value(), " ",
              static_cast<int>(said->message.message_case()), ": ", decision.reason);
}

absl::Status SimulatedCoordinator::Append(v1::JournalEntry entry, CoordinatorTerm term) {
  entry.set_sequence(NextSequence(state_, entry));
  entry.set_coordinator_term(term.value());
  if (const absl::Status checked = state_.Check(entry); !checked.ok()) {
    world_.violations.Report("journal", checked.message());
    return checked;
  }
  if (const absl::Status appended = store_.Append(entry, SyncModeOf(entry)); !appended.ok()) return appended;
  world_.Note("journal: ", entry.sequence(), " ", JobOfEntry(entry), " ", static_cast<int>(entry.fact_case()), " ",
              entry.step_committed().record().step(), " ", entry.job_state_changed().reason());
  if (DiesHere()) return absl::CancelledError("the coordinator has died");
  state_.Apply(entry);
  Record(entry);
  return absl::OkStatus();
}

void SimulatedCoordinator::Record(const v1::JournalEntry& entry) {
  const auto add = [&](const JobRecord& job) {
    event_log_.Add(job.id, EventOfEntry(entry, job));
    followers_.Wake(job.id);
  };
  if (entry.has_coordinator_started()) {
    for (const JobId& id : state_.active_jobs()) add(state_.jobs().at(id));
    return;
  }
  if (JobOfEntry(entry).empty()) return;
  const JobRecord& job = state_.jobs().at(JobId(JobOfEntry(entry)));
  add(job);
  if (HasEnded(job.history.state)) followers_.JobHasEnded(job.id);
}

void SimulatedCoordinator::RunEffect(AppendEntry& effect) {
  const absl::Status appended = Append(std::move(effect.entry), state_.term());
  if (!appended.ok() && alive()) Die();
}

void SimulatedCoordinator::RunEffect(SendToWorker& effect) {
  const auto worker = state_.workers().find(effect.worker);
  if (worker == state_.workers().end() || !worker->second.session.has_value()) return;
  if (worker->second.incarnation.value() != effect.message.fence().incarnation()) return;
  const SessionId session = *worker->second.session;
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  const absl::Status sent = found->second->SendToWorker(std::move(effect.message));
  if (sent.ok()) return;
  sessions_.erase(found);
  consequences_.push_back(SessionEnded{session, sent});
}

void SimulatedCoordinator::RunEffect(EndSession& effect) {
  const auto found = sessions_.find(effect.session);
  if (found == sessions_.end()) return;
  found->second->CloseByCoordinator(effect.why);
  sessions_.erase(found);
}

void SimulatedCoordinator::RunElsewhere(std::function<Input()> task, absl::Duration delay) {
  process_.After(world_.random.Between(absl::Milliseconds(1), trouble_.slowest_task) + delay,
                 [this, task = std::move(task)] { Post([this, result = task()] { Handle(result); }); });
}

absl::Duration SimulatedCoordinator::DrawHang() {
  if (!world_.random.Chance(world_.disks_hang)) return absl::ZeroDuration();
  return world_.random.Between(absl::ZeroDuration(), kLongestHang);
}

void SimulatedCoordinator::RunEffect(StartPlanning& effect) {
  RunElsewhere([this, order = std::move(effect)]() -> Input {
    if (world_.random.Chance(trouble_.planning_fails)) {
      return PlanReady{order.job, order.attempt, absl::ResourceExhaustedError("a stage does not fit"),
                       kReasonPlanningFailed};
    }
    return PlanReady{order.job, order.attempt, PlanOf(order.spec, static_cast<uint32_t>(order.workers.size())), ""};
  });
}

void SimulatedCoordinator::RunEffect(MakeDirectory& effect) {
  const auto make = [this, order = std::move(effect)]() -> Input {
    if (world_.random.Chance(trouble_.files_fail)) {
      return DirectoryMade{order.job, order.attempt, absl::PermissionDeniedError("no directory can be made")};
    }
    return DirectoryMade{order.job, order.attempt, world_.files.MakeDirectory(order.parent)};
  };
  RunElsewhere(make, DrawHang());
}

void SimulatedCoordinator::RunEffect(WriteManifest& effect) {
  const auto write = [this, order = std::move(effect)]() -> Input {
    if (abandoned_.contains({order.job, order.attempt})) {
      world_.Cover("a manifest was abandoned");
      return ManifestWritten{order.job, order.attempt, absl::AbortedError("the manifest was abandoned")};
    }
    if (world_.random.Chance(trouble_.files_fail)) {
      return ManifestWritten{order.job, order.attempt, absl::DataLossError("the manifest cannot be written")};
    }
    laws_.OnManifest(order.job, order.directory, order.manifest);
    return ManifestWritten{order.job, order.attempt, absl::OkStatus()};
  };
  RunElsewhere(write, DrawHang());
}

void SimulatedCoordinator::RunEffect(PruneOldCheckpoints&) {}
void SimulatedCoordinator::RunEffect(StepMeasured&) {}

void SimulatedCoordinator::RunEffect(KeepLogLines& effect) {
  log_book_.Add(effect.job, state_.term(), effect.worker, effect.lines);
  followers_.Wake(effect.job);
}

void SimulatedCoordinator::RunEffect(AnswerRequest& effect) {
  const auto answer = unanswered_.extract(effect.request);
  if (!answer.empty()) answer.mapped()(effect.answer);
}

// The fencing law at the coordinator.
void SimulatedCoordinator::CheckFence(const WorkerSaid& said, const Decision& decision) {
  if (!IsAboutJob(said.message)) return;
  const v1::Fence& fence = said.message.fence();
  const WorkerRecord* worker = state_.FindWorker(said.session);
  const auto job = state_.jobs().find(JobId(fence.job()));
  const bool counts = worker != nullptr && worker->incarnation.value() == fence.incarnation() &&
                      fence.coordinator_term() == state_.term().value() && job != state_.jobs().end() &&
                      !HasEnded(job->second.history.state) && fence.epoch() >= job->second.history.epoch.value() &&
                      worker->job == job->first;
  if (counts || std::none_of(decision.effects.begin(), decision.effects.end(), TouchesJob)) return;
  world_.violations.Report("fencing law", absl::StrCat("the coordinator has acted on {", fence.ShortDebugString(),
                                                       "} in term ", state_.term().value(), ": ", decision.reason));
}

void SimulatedCoordinator::CoverSessionEnd(SessionId session) {
  const WorkerRecord* worker = state_.FindWorker(session);
  if (worker == nullptr || !worker->job.has_value()) return;
  world_.Cover("a member's session broke while ", PhaseName(state_.jobs().at(*worker->job).progress.phase));
}

// No worker has two jobs.
void SimulatedCoordinator::CheckLeases() {
  std::map<WorkerId, JobId> leased;
  for (const JobId& id : state_.active_jobs()) {
    const auto& members = state_.jobs().at(id).progress.members;
    if (members == nullptr) continue;
    for (const MemberId& member : *members) {
      const auto [other, is_new] = leased.emplace(member.worker, id);
      if (is_new) continue;
      world_.violations.Report("one job a worker", absl::StrCat("worker ", member.worker.value(), " has ",
                                                                other->second.value(), " and ", id.value()));
    }
  }
}

}  // namespace stagecoach::simulation
