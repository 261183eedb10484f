#ifndef STAGECOACH_COORDINATOR_HUNG_MEMBER_H_
#define STAGECOACH_COORDINATOR_HUNG_MEMBER_H_

#include <optional>

#include "absl/time/time.h"
#include "common/ids.h"
#include "coordinator/jobs/job_record.h"
#include "coordinator/state.h"

namespace stagecoach {

struct HungMember {
  WorkerRank rank;
  WorkerId worker;
  FailureCause cause;
};

// Who holds up the run in flight of the job, by what workers' heartbeats say. nullopt: nobody, or nothing runs. Pure.
std::optional<HungMember> FindHungMember(absl::Duration now, const State& state, const JobRecord& job);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_HUNG_MEMBER_H_
