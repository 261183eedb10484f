#ifndef STAGECOACH_COORDINATOR_EFFECT_RUNNER_H_
#define STAGECOACH_COORDINATOR_EFFECT_RUNNER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/file_system.h"
#include "common/ids.h"
#include "coordinator/event_log.h"
#include "coordinator/fleet/session_id.h"
#include "coordinator/followers.h"
#include "coordinator/job_planning.h"
#include "coordinator/jobs/effect.h"
#include "coordinator/jobs/input.h"
#include "coordinator/journal/store.h"
#include "coordinator/log_book.h"
#include "coordinator/state.h"
#include "coordinator/state_observer.h"
#include "coordinator/task_thread.h"
#include "coordinator/trace_readings.h"
#include "formats/checkpoint_retention.h"

namespace stagecoach {

// The coordinator's end of one session. Called by the coordinator's thread: neither may block.
struct WorkerSink {
  std::function<absl::Status(v1::CoordinatorMessage)> send;  // error: the session is as good as ended
  std::function<void(const absl::Status&)> end;              // the coordinator ends it; nothing is sent afterwards
};

// Does what decisions say, in order. What takes long (planning, files) is done by task threads, whose results come back
// as inputs. Used by the coordinator's thread alone.
class EffectRunner {
 public:
  // All outlive the runner. `post_result` puts an input into the coordinator's queue; thread-safe.
  struct Collaborators {
    State& state;
    Store& store;
    FileSystem& files;
    Planner planner;
    std::function<absl::Time()> wall_clock;
    TaskThread& planning_thread;
    TaskThread& file_thread;
    std::function<void(Input)> post_result;
    std::function<void(uint64_t, absl::StatusOr<JobId>)> answer;
    StateObserver* observer = nullptr;  // null: none
  };
  explicit EffectRunner(Collaborators collaborators)
      : to_(std::move(collaborators)), retention_(to_.files), followers_(event_log_, log_book_) {}

  // Fills in sequence, term and time, appends, applies. An error of the store: nothing was applied.
  absl::Status Append(v1::JournalEntry entry, CoordinatorTerm term);
  // What Append does, with an entry that is in the journal already.
  void Replay(const v1::JournalEntry& entry) { Take(entry, /*replayed=*/true); }
  // Stops at the first error, which is the journal's: the effects behind it have not happened.
  absl::Status Run(Decision decision);
  // What effects have brought about since the last call: sessions that took no message, tasks that could not begin, a
  // Tick that was asked for. To be decided next.
  std::vector<Input> TakeConsequences();

  void AddSession(SessionId session, WorkerSink sink) { sessions_[session] = std::move(sink); }
  // The worker or the network has ended it.
  void ForgetSession(SessionId session) { sessions_.erase(session); }
  void EndAllSessions(const absl::Status& why);

  Followers& followers() { return followers_; }
  TraceReadings& trace_readings() { return trace_readings_; }

 private:
  absl::Status RunEffect(AppendEntry& effect);
  absl::Status RunEffect(ObserveFact& effect);
  absl::Status RunEffect(SendToWorker& effect);
  absl::Status RunEffect(EndSession& effect);
  absl::Status RunEffect(StartPlanning& effect);
  absl::Status RunEffect(MakeDirectory& effect);
  absl::Status RunEffect(WriteManifest& effect);
  absl::Status RunEffect(AbandonManifest& effect);
  absl::Status RunEffect(RemoveDirectory& effect);
  absl::Status RunEffect(PruneOldCheckpoints& effect);
  absl::Status RunEffect(KeepLogLines& effect);
  absl::Status RunEffect(AnswerRequest& effect);
  absl::Status RunEffect(BeginTraceReading& effect);
  absl::Status RunEffect(TakeTracePart& effect);
  absl::Status RunEffect(StepMeasured& effect);
  absl::Status RunEffect(RequestTick& effect);

  void Take(const v1::JournalEntry& entry, bool replayed);
  void RunOnFiles(std::function<absl::Status()> work);
  void Record(const v1::JournalEntry& entry);
  void Forget(const JobId& job);

  const Collaborators to_;
  CheckpointRetention retention_;  // of the file thread
  EventLog event_log_;
  LogBook log_book_;
  Followers followers_;
  TraceReadings trace_readings_;
  std::map<SessionId, WorkerSink> sessions_;
  // The newest WriteManifest of each job.
  struct Publication {
    uint64_t attempt = 0;
    std::shared_ptr<std::atomic<bool>> is_abandoned;  // shared with the file thread
  };
  std::map<JobId, Publication> publications_;
  std::vector<Input> consequences_;
  bool tick_requested_ = false;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_EFFECT_RUNNER_H_
