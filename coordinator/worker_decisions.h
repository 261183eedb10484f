#ifndef STAGECOACH_COORDINATOR_WORKER_DECISIONS_H_
#define STAGECOACH_COORDINATOR_WORKER_DECISIONS_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/fleet/worker_record.h"
#include "coordinator/jobs/effect.h"
#include "coordinator/jobs/input.h"
#include "coordinator/state.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

// Who is there, and what it means for jobs when somebody comes or goes. Pure: parts of Decide.

// Whoever dialled last has the name, but an incarnation that another has taken the place of does not come back. A
// member of a job that dials again within the grace, or after a restart, is one still; anybody else is told to give up
// what it holds of a job.
Decision OnWorkerConnected(absl::Duration now, const State& state, const WorkerConnected& input);
// The worker is suspect for the grace, and then lost; at once when it had said that it leaves.
Decision OnSessionEnded(absl::Duration now, const State& state, const SessionEnded& input);
// Renews the lease.
Decision OnHeartbeat(absl::Duration now, const State& state, const WorkerRecord& worker,
                     const v1::WorkerMessage& message);
// It gets no other job, and is dismissed when it has none.
Decision OnLeaving(absl::Duration now, const State& state, const WorkerRecord& worker, const v1::Leaving& leaving);
// It holds nothing any more of a job that goes on without it.
Decision OnCleared(const WorkerRecord& worker);
// Of a member, or one that was a member of the job's last epoch.
Decision OnLogLines(const State& state, const WorkerRecord& worker, const v1::WorkerMessage& message);
// The lease, the grace, or what is remembered of a lost worker is over; one that leaves has no job; one hangs. nullopt:
// nothing of all this.
std::optional<Decision> OnWorkersTick(absl::Duration now, const State& state);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_WORKER_DECISIONS_H_
