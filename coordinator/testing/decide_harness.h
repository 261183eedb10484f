#ifndef STAGECOACH_COORDINATOR_TESTING_DECIDE_HARNESS_H_
#define STAGECOACH_COORDINATOR_TESTING_DECIDE_HARNESS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/decide.h"
#include "coordinator/state_observer.h"
#include "coordinator/testing/fake_worker.h"

namespace stagecoach {

// Runs decisions without threads, files or planning: inputs are fed one at a time, and every effect is recorded. The
// clock stands still unless told. Used by one thread.
class DecideHarness {
 public:
  DecideHarness() { BeginTerm(1); }

  // Decides, runs the effects and the ticks that they ask for. False: the decision had no effects.
  bool Feed(const Input& input);

  // A new process.
  FakeWorker& Connect(const std::string& name, uint64_t incarnation = 1, const std::string& numerics_class = "fake",
                      const std::string& device = "cpu");
  // A process that is there dials, again; what was under way to it is lost.
  void Dial(const std::string& name);
  // The session ends; the process lives on.
  void Break(const std::string& name, const absl::Status& why = absl::UnavailableError("stream reset"));
  // The process dies, and the grace passes.
  void Lose(const std::string& name, const absl::Status& why = absl::UnavailableError("stream reset"));
  // Time passes: the coordinator looks whenever it has to, and workers that have a session send heartbeats.
  void Pass(absl::Duration time);
  JobId Submit(const v1::JobSpec& spec, const std::string& submission_id = "");
  // The coordinator dies and another begins from the journal. The workers' processes are as they were, and have no
  // session.
  void Restart();
  // Answers the planning under way.
  bool FinishPlanning(std::shared_ptr<const JobPlan> plan);
  bool FinishPlanning(const absl::Status& status, const std::string& reason);
  bool FinishDirectory(absl::StatusOr<std::string> directory);
  bool FinishManifest(const absl::Status& status);
  // Lets the worker handle the oldest message in its inbox. False: it had none, or the coordinator ignored the answer.
  bool Step(const std::string& name);
  // Lets all workers handle all messages, and file effects succeed, until nothing is left to do.
  void RunUntilQuiet();
  // Lets workers handle messages until `done`, or nothing is left to do.
  template <typename Done>
  void RunUntil(Done done) {
    while (!done() && StepAny()) {
    }
  }

  const JobRecord& job(const JobId& id) const { return state.jobs().at(id); }
  v1::WorkerMessage Fenced(const std::string& worker, const JobId& job) const;
  // Over the worker's current session.
  bool Say(const std::string& worker, const v1::WorkerMessage& message);
  const WorkerRecord& worker(const std::string& name) const { return state.workers().at(WorkerId(name)); }
  bool IsConnected(const std::string& name) const { return sessions.contains(name); }
  // Messages of a kind ever sent to the worker.
  std::vector<v1::CoordinatorMessage> Sent(const std::string& worker, v1::CoordinatorMessage::MessageCase kind) const;

  State state;
  absl::Duration now;
  std::vector<v1::JournalEntry> journal;
  std::map<std::string, std::unique_ptr<FakeWorker>> workers;
  std::map<std::string, std::deque<v1::CoordinatorMessage>> inbox;
  std::map<std::string, std::vector<v1::CoordinatorMessage>> sent;
  uint32_t max_threads = 2;                          // of workers that connect from now on
  std::set<std::string> silent;                      // of these no heartbeats come
  std::map<std::string, v1::RunState> runs;          // that heartbeats tell
  std::map<std::string, SessionId> sessions;         // of those that are connected
  std::map<SessionId, absl::Status> ended_sessions;  // by the coordinator
  std::vector<v1::JobStatus> statuses;
  std::vector<v1::StepEvent> events;
  std::map<uint64_t, double> validation_losses;  // by step
  std::map<JobId, std::vector<v1::StepEvent>> events_of;
  std::vector<v1::EventNote> notes;
  std::vector<KeepLogLines> log_lines;
  std::vector<BeginTraceReading> trace_readings;
  std::vector<TakeTracePart> trace_parts;
  StateObserver* observer = nullptr;  // sees what it would see of a coordinator
  // Under way, the oldest of each kind; others follow when it is finished.
  std::optional<StartPlanning> planning;
  std::optional<MakeDirectory> directory;
  std::optional<WriteManifest> manifest;
  std::vector<AbandonManifest> abandoned;
  std::vector<std::string> removed_directories;
  std::vector<PruneOldCheckpoints> prunings;
  std::shared_ptr<const v1::JobResumed> resume_point;  // that the next planning finds; null: none
  std::optional<absl::StatusOr<JobId>> answer;         // to the last request
  std::string reason;                                  // of the last decision

 private:
  bool StepAny();
  void RunEffects(const Decision& decision);
  void RunEffect(const AppendEntry& effect);
  void RunEffect(const ObserveFact& effect);
  void RunEffect(const SendToWorker& effect);
  void RunEffect(const StartPlanning& effect) { Order(effect, planning, later_plannings_); }
  void RunEffect(const MakeDirectory& effect) { Order(effect, directory, later_directories_); }
  void RunEffect(const WriteManifest& effect) { Order(effect, manifest, later_manifests_); }
  void RunEffect(const AbandonManifest& effect) { abandoned.push_back(effect); }
  void RunEffect(const RemoveDirectory& effect) { removed_directories.push_back(effect.directory); }
  void RunEffect(const PruneOldCheckpoints& effect) { prunings.push_back(effect); }
  void RunEffect(const EndSession& effect);
  void RunEffect(const KeepLogLines& effect) { log_lines.push_back(effect); }
  void RunEffect(const AnswerRequest& effect) { answer = effect.answer; }
  void RunEffect(const BeginTraceReading& effect) { trace_readings.push_back(effect); }
  void RunEffect(const TakeTracePart& effect) { trace_parts.push_back(effect); }
  void RunEffect(const StepMeasured& effect);
  void RunEffect(const RequestTick&) { tick_requested_ = true; }

  // What a coordinator does first.
  void BeginTerm(uint64_t term);
  template <typename T>
  void Order(const T& order, std::optional<T>& first, std::deque<T>& later) {
    if (first.has_value()) {
      later.push_back(order);
    } else {
      first = order;
    }
  }
  template <typename T>
  T Take(std::optional<T>& first, std::deque<T>& later) {
    T order = *std::exchange(first, std::nullopt);
    if (!later.empty()) {
      first = later.front();
      later.pop_front();
    }
    return order;
  }
  void Note(const v1::JobEvent& event, const JobId& job);
  void Beat();

  std::deque<StartPlanning> later_plannings_;
  std::deque<MakeDirectory> later_directories_;
  std::deque<WriteManifest> later_manifests_;
  uint64_t term_ = 0;
  uint64_t last_session_ = 0;
  absl::Duration next_beat_;
  bool tick_requested_ = false;
};

// What replaying the entries gives. They must follow from each other.
State Replay(const std::vector<v1::JournalEntry>& journal, StateObserver* observer = nullptr);
// The durable part, all of it: equal texts, equal parts.
std::string DurableText(const State& state);

// Four steps of eight samples in micro-batches of two; validation after each second step when the plan has samples for
// it.
v1::JobSpec SmallSpec(const std::string& name = "job");
// One layer with two parameters on each worker; 24 training samples.
std::shared_ptr<JobPlan> SmallPlan(uint32_t num_workers, uint64_t num_validation_samples = 0);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_TESTING_DECIDE_HARNESS_H_
