#ifndef STAGECOACH_COORDINATOR_STATE_H_
#define STAGECOACH_COORDINATOR_STATE_H_

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "coordinator/fleet/fleet_options.h"
#include "coordinator/fleet/session_id.h"
#include "coordinator/fleet/worker_record.h"
#include "coordinator/jobs/effect.h"
#include "coordinator/jobs/job_decision.h"
#include "coordinator/jobs/job_record.h"
#include "coordinator/jobs/queue.h"
#include "coordinator/plan/cost_table.h"
#include "stagecoach/v1/journal.pb.h"

namespace stagecoach {

// Everything the coordinator knows. Apply alone changes the durable part (term, sequence, the history of jobs, which
// workers there are, what was measured on them), Observe alone the rest. Thread-compatible.
class State {
 public:
  State() : State(FleetOptions{}) {}
  explicit State(FleetOptions options) : options_(options) {}

  // FAILED_PRECONDITION: the entry does not follow from the durable part: a broken journal.
  absl::Status Check(const v1::JournalEntry& entry) const;
  // Cannot fail: Check has passed. Replaying the journal rebuilds the durable part.
  void Apply(const v1::JournalEntry& entry);
  void Observe(const ObserveFact& fact);

  const FleetOptions& options() const { return options_; }
  const Jobs& jobs() const { return jobs_; }
  const std::set<JobId>& active_jobs() const { return active_jobs_; }  // that have not ended
  // By the sequences of their ends.
  const std::set<std::pair<uint64_t, JobId>>& ended_jobs() const { return ended_jobs_; }
  const CostTable& costs() const { return costs_; }           // of layers, measured for whichever jobs
  Epoch forgotten_epoch() const { return forgotten_epoch_; }  // the highest of any forgotten job
  const Workers& workers() const { return workers_; }
  // Workers that have dialled and were not lost or dismissed since, under whichever coordinator.
  const std::set<WorkerId>& fleet() const { return fleet_; }
  // Those that have not dialled since the restart, and until when they may (infinite: nobody is awaited).
  std::vector<WorkerId> AwaitedWorkers() const;
  absl::Duration fleet_awaited_until() const { return fleet_awaited_until_; }
  const PulseSet& pulse() const { return pulse_; }  // see pulse.h
  // Null: it is no worker's current session.
  const WorkerRecord* FindWorker(SessionId session) const;
  CoordinatorTerm term() const { return term_; }
  uint64_t last_sequence() const { return last_sequence_; }

 private:
  void Observe(const WorkerChanged& fact);
  void Observe(const WorkerForgotten& fact);
  void Observe(const ProgressChanged& fact);
  void Observe(const PulseSet& fact) { pulse_ = fact; }
  void Observe(const FleetAwaited& fact) { fleet_awaited_until_ = fact.until; }
  void ApplyToOneJob(const v1::JournalEntry& entry);
  void Apply(const v1::JobsForgotten& forgotten);
  absl::Status Check(const v1::JobsForgotten& forgotten) const;

  FleetOptions options_;
  CoordinatorTerm term_;
  uint64_t last_sequence_ = 0;
  Jobs jobs_;
  std::set<JobId> active_jobs_;
  std::set<std::pair<uint64_t, JobId>> ended_jobs_;
  Epoch forgotten_epoch_;
  CostTable costs_;
  std::set<WorkerId> fleet_;
  absl::Duration fleet_awaited_until_ = absl::InfiniteDuration();
  Workers workers_;
  std::map<SessionId, WorkerId> sessions_;
  PulseSet pulse_;
};

// The number of the next entry. A coordinator begins with a leap: a loss of power may have taken entries whose numbers
// followers know as tokens.
uint64_t NextSequence(const State& state, const v1::JournalEntry& entry);

// For decisions about its jobs.
JobDecision::Surroundings SurroundingsOf(absl::Duration now, const State& state);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_STATE_H_
