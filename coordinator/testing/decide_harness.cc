#include "coordinator/testing/decide_harness.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace stagecoach {

void DecideHarness::BeginTerm(uint64_t term) {
  term_ = term;
  v1::JournalEntry entry;
  entry.mutable_coordinator_started();
  RunEffect(AppendEntry{entry});
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
  STAGECOACH_CHECK(state.Check(entry).ok());
  journal.push_back(entry);
  state.Apply(entry);
}

void DecideHarness::RunEffect(const SendToWorker& effect) {
  const std::string& name = effect.worker.value();
  sent[name].push_back(effect.message);
  const auto worker = workers.find(name);
  const bool reachable =
      worker != workers.end() && worker->second->incarnation().value() == effect.message.fence().incarnation();
  if (reachable) inbox[name].push_back(effect.message);
}

void DecideHarness::RunEffect(const NotifyFollowers& effect) {
  if (const auto* status = std::get_if<v1::JobStatus>(&effect.event)) statuses.push_back(*status);
  if (const auto* event = std::get_if<v1::StepEvent>(&effect.event)) {
    events.push_back(*event);
    events_of[effect.job].push_back(*event);
  }
}

FakeWorker& DecideHarness::Connect(const std::string& name, uint64_t incarnation, const std::string& numerics_class) {
  inbox[name].clear();
  auto& worker = workers[name];
  worker = std::make_unique<FakeWorker>(name, Incarnation(incarnation));
  worker->numerics_class = numerics_class;
  Feed(WorkerConnected{worker->id(), worker->incarnation(), worker->hello()});
  return *worker;
}

void DecideHarness::Lose(const std::string& name, const absl::Status& why) {
  const Incarnation incarnation = workers.at(name)->incarnation();
  workers.erase(name);
  inbox.erase(name);
  Feed(WorkerLost{WorkerId(name), incarnation, why});
}

JobId DecideHarness::Submit(const v1::JobSpec& spec) {
  Feed(JobRequested{1, spec});
  STAGECOACH_CHECK(answer.has_value() && answer->ok());
  return **answer;
}

void DecideHarness::Restart() {
  state = Replay(journal);
  workers.clear();
  inbox.clear();
  planning.reset();
  directory.reset();
  manifest.reset();
  BeginTerm(term_ + 1);
  Feed(Restarted{});
}

bool DecideHarness::FinishPlanning(std::shared_ptr<const JobPlan> plan) {
  const StartPlanning order = *std::exchange(planning, std::nullopt);
  return Feed(PlanReady{order.job, order.attempt, std::move(plan), ""});
}

bool DecideHarness::FinishPlanning(const absl::Status& status, const std::string& failure_reason) {
  const StartPlanning order = *std::exchange(planning, std::nullopt);
  return Feed(PlanReady{order.job, order.attempt, status, failure_reason});
}

bool DecideHarness::FinishDirectory(absl::StatusOr<std::string> path) {
  const MakeDirectory order = *std::exchange(directory, std::nullopt);
  return Feed(DirectoryMade{order.job, order.epoch, std::move(path)});
}

bool DecideHarness::FinishManifest(const absl::Status& status) {
  const WriteManifest order = *std::exchange(manifest, std::nullopt);
  return Feed(ManifestWritten{order.job, order.epoch, status});
}

bool DecideHarness::Step(const std::string& name) {
  std::deque<v1::CoordinatorMessage>& messages = inbox[name];
  while (!messages.empty()) {
    const v1::CoordinatorMessage message = messages.front();
    messages.pop_front();
    const std::optional<v1::WorkerMessage> reply = workers.at(name)->Answer(message);
    if (reply.has_value()) return Feed(WorkerSaid{WorkerId(name), *reply});
  }
  return false;
}

bool DecideHarness::StepAny() {
  for (const auto& [name, worker] : workers) {
    if (inbox[name].empty()) continue;
    Step(name);
    return true;
  }
  if (directory.has_value()) return FinishDirectory(absl::StrCat(directory->parent, "/step"));
  if (manifest.has_value()) return FinishManifest(absl::OkStatus());
  return false;
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

State Replay(const std::vector<v1::JournalEntry>& journal) {
  State state;
  for (const v1::JournalEntry& entry : journal) {
    STAGECOACH_CHECK(state.Check(entry).ok());
    state.Apply(entry);
  }
  return state;
}

std::string DurableText(const State& state) {
  std::string text = absl::StrCat("term ", state.term().value(), ", sequence ", state.last_sequence(), "\n");
  for (const auto& [id, job] : state.jobs()) {
    const JobHistory& history = job.history;
    absl::StrAppend(&text, "job ", id.value(), ", submitted at ", history.submitted_at, ", state ",
                    static_cast<int>(history.state), " ", history.reason, " ", history.message, ", epoch ",
                    history.epoch.value(), ", skips ", history.consecutive_skips, "\n",
                    history.spec->SerializeAsString(), history.last_commit.SerializeAsString());
    if (history.plan != nullptr) absl::StrAppend(&text, "plan ", history.plan->SerializeAsString());
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
