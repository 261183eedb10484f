#ifndef STAGECOACH_COORDINATOR_JOBS_JOB_DECISION_H_
#define STAGECOACH_COORDINATOR_JOBS_JOB_DECISION_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/ids.h"
#include "coordinator/fleet/fleet_options.h"
#include "coordinator/jobs/effect.h"
#include "coordinator/jobs/job_record.h"
#include "coordinator/plan/cost_table.h"

namespace stagecoach {

// A decision about one job in the making: a working copy of its record, which changes as effects are added, so that
// each step of the decision sees what the ones before it have done. Used within one call of Decide.
class JobDecision {
 public:
  // What all jobs have in common.
  struct Surroundings {
    absl::Duration now;
    CoordinatorTerm term;
    FleetOptions options;
    const CostTable& costs;  // as they are before the decision; outlives it
  };
  JobDecision(const Surroundings& surroundings, const JobRecord& job) : surroundings_(surroundings), job_(job) {}

  absl::Duration now() const { return surroundings_.now; }
  CoordinatorTerm term() const { return surroundings_.term; }
  const FleetOptions& options() const { return surroundings_.options; }
  const CostTable& costs() const { return surroundings_.costs; }
  const JobRecord& job() const { return job_; }
  const JobHistory& history() const { return job_.history; }
  const v1::JobSpec& spec() const { return *job_.history.spec; }
  JobProgress& progress() { return job_.progress; }
  size_t num_members() const { return job_.progress.said.size(); }
  MemberProgress& said(WorkerRank rank) { return job_.progress.said[rank.value()]; }
  template <typename Predicate>
  bool AllMembers(Predicate predicate) const {
    for (const MemberProgress& member : job_.progress.said) {
      if (!predicate(member)) return false;
    }
    return true;
  }

  // With the deadline that the phase has.
  void EnterPhase(Phase phase);

  void Append(v1::JournalEntry entry);
  // The table has the change: anything else is a broken invariant.
  void ChangeState(v1::JobState state, const std::string& reason, const std::string& message);
  // To FAILED.
  void Fail(const FailureCause& cause);
  void Send(WorkerRank rank, v1::CoordinatorMessage message);
  void SendToAll(const v1::CoordinatorMessage& message);
  void Add(Effect effect) { effects_.push_back(std::move(effect)); }

  // Takes the working copy's progress as the first effect.
  Decision Finish(std::string reason) &&;

 private:
  const Surroundings surroundings_;
  JobRecord job_;
  std::vector<Effect> effects_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOBS_JOB_DECISION_H_
