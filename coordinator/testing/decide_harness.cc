#include "coordinator/testing/decide_harness.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "coordinator/deadlines.h"
#include "coordinator/jobs/job_events.h"

namespace stagecoach {

void DecideHarness::BeginTerm(uint64_t term) {
  term_ = term;
  v1::JournalEntry entry;
  entry.mutable_coordinator_started();
  RunEffect(AppendEntry{entry});
  Feed(Restarted{});
}

bool DecideHarness::Feed(const Input& input) {
  const Decision decision = Decide(now, state, input);
  reason = decision.reason;
  RunEffects(decision);
  while (std::exchange(tick_requested_, false)) RunEffects(Decide(now, state, Tick{}));
  return !decision.effects.empty();
}

void DecideHarness::RunEffects(const Decision& decision) {
  for (const Effect& effect : decision.effects) {
    std::visit([this](const auto& typed) { RunEffect(typed); }, effect);
  }
}

void DecideHarness::RunEffect(const AppendEntry& effect) {
  v1::JournalEntry entry = effect.entry;
  entry.set_sequence(state.last_sequence() + 1);
  entry.set_coordinator_term(term_);
  entry.mutable_time()->set_seconds(static_cast<int64_t>(entry.sequence()));
  const absl::Status status = state.Check(entry);
  STAGECOACH_CHECK(status.ok());
  journal.push_back(entry);
  state.Apply(entry);
  if (observer != nullptr) observer->OnEntry(entry, state, /*replayed=*/false);
  if (JobOfEntry(entry).empty()) return;
  const JobId id(JobOfEntry(entry));
  Note(EventOfEntry(entry, job(id)), id);
}

void DecideHarness::RunEffect(const ObserveFact& effect) {
  if (observer != nullptr) observer->BeforeFact(effect, state);
  state.Observe(effect);
}

void DecideHarness::RunEffect(const StepMeasured& effect) {
  if (observer != nullptr) observer->OnStepMeasured(effect, state);
}

void DecideHarness::RunEffect(const SendToWorker& effect) {
  const std::string& name = effect.worker.value();
  sent[name].push_back(effect.message);
  const auto worker = workers.find(name);
  const bool reachable = worker != workers.end() && sessions.contains(name) &&
                         worker->second->incarnation().value() == effect.message.fence().incarnation();
  if (reachable) inbox[name].push_back(effect.message);
}

void DecideHarness::RunEffect(const EndSession& effect) {
  ended_sessions[effect.session] = effect.why;
  for (const auto& [name, session] : sessions) {
    if (session != effect.session) continue;
    sessions.erase(name);
    return;
  }
}

void DecideHarness::Note(const v1::JobEvent& event, const JobId& job) {
  if (event.has_status()) statuses.push_back(event.status());
  if (event.has_note()) notes.push_back(event.note());
  if (event.has_validation()) validation_losses[event.validation().step()] = event.validation().loss();
  if (!event.has_step()) return;
  events.push_back(event.step());
  events_of[job].push_back(event.step());
}

FakeWorker& DecideHarness::Connect(const std::string& name, uint64_t incarnation, const std::string& numerics_class,
                                   const std::string& device) {
  auto& worker = workers[name];
  worker = std::make_unique<FakeWorker>(name, Incarnation(incarnation));
  worker->numerics_class = numerics_class;
  worker->max_threads = max_threads;
  worker->device = device;
  Dial(name);
  return *worker;
}

void DecideHarness::Dial(const std::string& name) {
  FakeWorker& worker = *workers.at(name);
  inbox[name].clear();
  const SessionId session(++last_session_);
  sessions[name] = session;
  Feed(WorkerConnected{worker.id(), worker.incarnation(), session, worker.hello()});
}

void DecideHarness::Break(const std::string& name, const absl::Status& why) {
  inbox.erase(name);
  const auto session = sessions.extract(name);
  if (!session.empty()) Feed(SessionEnded{session.mapped(), why});
}

void DecideHarness::Lose(const std::string& name, const absl::Status& why) {
  Break(name, why);
  workers.erase(name);
  Pass(state.options().suspect_grace);
}

void DecideHarness::Pass(absl::Duration time) {
  const absl::Duration end = now + time;
  while (true) {
    const absl::Duration next = std::min(NextDeadline(state), next_beat_);
    if (next > end) break;
    now = std::max(now, next);
    if (now >= next_beat_) {
      next_beat_ = now + state.options().heartbeat_interval;
      Beat();
    } else {
      Feed(Tick{});
    }
  }
  now = end;
}

void DecideHarness::Beat() {
  const std::map<std::string, SessionId> beating = sessions;
  for (const auto& [name, session] : beating) {
    if (silent.contains(name) || !workers.contains(name)) continue;
    v1::WorkerMessage message;
    v1::Fence& fence = *message.mutable_fence();
    fence.set_incarnation(workers.at(name)->incarnation().value());
    fence.set_coordinator_term(term_);
    const auto run = runs.find(name);
    if (run != runs.end()) {
      *message.mutable_heartbeat()->mutable_run() = run->second;
      const auto& worker_job = worker(name).job;
      if (worker_job.has_value()) {
        fence.set_job(worker_job->value());
        fence.set_epoch(job(*worker_job).history.epoch.value());
      }
    }
    message.mutable_heartbeat()->set_sequence(1);
    Feed(WorkerSaid{session, message});
  }
}

bool DecideHarness::Say(const std::string& worker, const v1::WorkerMessage& message) {
  const auto session = sessions.find(worker);
  return session != sessions.end() && Feed(WorkerSaid{session->second, message});
}

JobId DecideHarness::Submit(const v1::JobSpec& spec, const std::string& submission_id) {
  Feed(JobRequested{1, spec, submission_id});
  STAGECOACH_CHECK(answer.has_value() && answer->ok());
  return **answer;
}

void DecideHarness::Restart() {
  state = Replay(journal, observer);
  sessions.clear();
  inbox.clear();
  planning.reset();
  directory.reset();
  manifest.reset();
  later_plannings_.clear();
  later_directories_.clear();
  later_manifests_.clear();
  BeginTerm(term_ + 1);
}

bool DecideHarness::FinishPlanning(std::shared_ptr<const JobPlan> plan) {
  const StartPlanning order = Take(planning, later_plannings_);
  return Feed(PlanReady{order.job, order.attempt, std::move(plan), "", std::exchange(resume_point, nullptr)});
}

bool DecideHarness::FinishPlanning(const absl::Status& status, const std::string& failure_reason) {
  const StartPlanning order = Take(planning, later_plannings_);
  return Feed(PlanReady{order.job, order.attempt, status, failure_reason});
}

bool DecideHarness::FinishDirectory(absl::StatusOr<std::string> path) {
  const MakeDirectory order = Take(directory, later_directories_);
  return Feed(DirectoryMade{order.job, order.attempt, std::move(path)});
}

bool DecideHarness::FinishManifest(const absl::Status& status) {
  const WriteManifest order = Take(manifest, later_manifests_);
  return Feed(ManifestWritten{order.job, order.attempt, status});
}

bool DecideHarness::Step(const std::string& name) {
  std::deque<v1::CoordinatorMessage>& messages = inbox[name];
  while (!messages.empty()) {
    const v1::CoordinatorMessage message = messages.front();
    messages.pop_front();
    const std::optional<v1::WorkerMessage> reply = workers.at(name)->Answer(message);
    if (reply.has_value()) return Say(name, *reply);
  }
  return false;
}

bool DecideHarness::StepAny() {
  for (const auto& [name, worker] : workers) {
    if (!sessions.contains(name) || inbox[name].empty()) continue;
    Step(name);
    return true;
  }
  if (directory.has_value()) {
    FinishDirectory(absl::StrCat(directory->parent, "/step"));
    return true;
  }
  if (!manifest.has_value()) return false;
  FinishManifest(absl::OkStatus());
  return true;
}

void DecideHarness::RunUntilQuiet() {
  RunUntil([] { return false; });
}

v1::WorkerMessage DecideHarness::Fenced(const std::string& worker, const JobId& id) const {
  v1::WorkerMessage message;
  message.mutable_fence()->set_job(id.value());
  message.mutable_fence()->set_epoch(job(id).history.epoch.value());
  message.mutable_fence()->set_incarnation(workers.at(worker)->incarnation().value());
  message.mutable_fence()->set_coordinator_term(term_);
  return message;
}

std::vector<v1::CoordinatorMessage> DecideHarness::Sent(const std::string& worker,
                                                        v1::CoordinatorMessage::MessageCase kind) const {
  std::vector<v1::CoordinatorMessage> messages;
  const auto found = sent.find(worker);
  if (found == sent.end()) return messages;
  for (const v1::CoordinatorMessage& message : found->second) {
    if (message.message_case() == kind) messages.push_back(message);
  }
  return messages;
}

State Replay(const std::vector<v1::JournalEntry>& journal, StateObserver* observer) {
  State state;
  for (const v1::JournalEntry& entry : journal) {
    STAGECOACH_CHECK(state.Check(entry).ok());
    state.Apply(entry);
    if (observer != nullptr) observer->OnEntry(entry, state, /*replayed=*/true);
  }
  return state;
}

std::string DurableText(const State& state) {
  std::string text = absl::StrCat("term ", state.term().value(), ", sequence ", state.last_sequence(), "\n");
  absl::StrAppend(&text, "forgotten epoch ", state.forgotten_epoch().value(), "\n");
  for (const auto& [kind, costs] : state.costs().by_kind()) {
    absl::StrAppend(&text, "costs of ", kind.numerics_class, " ", kind.device, " ", kind.threads, "\n");
    for (const auto& [shape, sizes] : costs->by_shape()) {
      for (const auto& [size, seconds] : sizes) {
        absl::StrAppend(&text, shape, " of ", size, ": ", seconds.forward, " ", seconds.backward_input, " ",
                        seconds.backward_weight, "\n");
      }
    }
  }
  for (const WorkerId& worker : state.fleet()) absl::StrAppend(&text, "worker ", worker.value(), "\n");
  for (const auto& [id, job] : state.jobs()) {
    const JobHistory& history = job.history;
    absl::StrAppend(&text, "data ", history.data.bytes, " ", history.data.digest, ", ended at ", history.ended_at,
                    ", epochs above ", history.epoch_floor.value(), "\n");
    absl::StrAppend(&text, "job ", id.value(), ", submitted at ", history.submitted_at, ", state ",
                    static_cast<int>(history.state), history.threads_are_automatic,
                    history.micro_batch_size_is_automatic, " ", history.reason, " ", history.message, ", epoch ",
                    history.epoch.value(), " of ", history.num_epochs, ", ended ", history.ended_epoch.value(),
                    ", skips ", history.consecutive_skips, ", evaluated ", history.evaluated_step, ", submission ",
                    history.submission_id, " ", history.spec_digest, "\n", history.submitted.SerializeAsString(),
                    history.started.SerializeAsString(), history.ended.SerializeAsString(),
                    history.spec->SerializeAsString(), history.last_commit.SerializeAsString());
    if (history.last_step != nullptr) absl::StrAppend(&text, "step ", history.last_step->SerializeAsString());
    if (history.root_cause != nullptr) absl::StrAppend(&text, "cause ", history.root_cause->SerializeAsString());
    if (history.plan != nullptr) absl::StrAppend(&text, "plan ", history.plan->SerializeAsString());
    if (history.order != nullptr) absl::StrAppend(&text, "order ", history.order->SerializeAsString());
    if (history.placement != nullptr) absl::StrAppend(&text, "placement ", history.placement->SerializeAsString());
    for (const auto& checkpoint : history.checkpoints) {
      absl::StrAppend(&text, "checkpoint ", checkpoint.SerializeAsString());
    }
  }
  return text;
}

v1::JobSpec SmallSpec(const std::string& name) {
  v1::JobSpec spec;
  spec.set_name(name);
  spec.mutable_training()->set_seq_len(16);
  spec.mutable_training()->set_global_batch_size(8);
  spec.mutable_training()->set_micro_batch_size(2);
  spec.mutable_training()->set_steps(4);
  spec.mutable_training()->set_validation_interval(2);
  spec.mutable_optimizer()->set_lr(0.5);
  spec.mutable_lr_scheduler()->set_name("constant");
  spec.mutable_checkpoint()->set_dir("/checkpoints");
  return spec;
}

std::shared_ptr<JobPlan> SmallPlan(uint32_t num_workers, uint64_t num_validation_samples) {
  auto plan = std::make_shared<JobPlan>();
  plan->num_train_samples = 24;
  plan->num_validation_samples = num_validation_samples;
  plan->planned.plan.set_num_micro_batches(4);
  for (uint32_t rank = 0; rank < num_workers; ++rank) {
    v1::LayerSpec& layer = *plan->planned.graph.add_layers();
    layer.add_parameters()->set_name(absl::StrCat("layer.", rank, ".weight"));
    layer.add_parameters()->set_name(absl::StrCat("layer.", rank, ".bias"));
    v1::StagePlan& stage = *plan->planned.plan.add_stages();
    stage.set_worker_rank(rank);
    stage.set_first_layer(rank);
    stage.set_last_layer(rank);
    for (auto* programs : {&plan->planned.programs, &plan->planned.evaluation_programs}) {
      v1::StageProgram& program = programs->emplace_back();
      program.set_forward_only(programs == &plan->planned.evaluation_programs);
      program.set_worker_rank(rank);
      program.set_content_hash(absl::StrCat(program.forward_only() ? "evaluation" : "training", rank));
      program.set_num_micro_batches(program.forward_only() ? 2 : 4);
      v1::StageSlots& slots = *program.add_stages();
      slots.set_stage(rank);
      slots.set_first_layer(rank);
      slots.set_last_layer(rank);
    }
  }
  return plan;
}

}  // namespace stagecoach
