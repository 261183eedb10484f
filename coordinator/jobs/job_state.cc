#include "coordinator/jobs/job_state.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace stagecoach {
namespace {

constexpr std::array<JobStateTransition, 25> kTransitions = {{
    {v1::JOB_STATE_UNSPECIFIED, v1::JOB_STATE_QUEUED},  // submitted
    {v1::JOB_STATE_QUEUED, v1::JOB_STATE_PREPARING},    // enough workers: planning starts
    {v1::JOB_STATE_QUEUED, v1::JOB_STATE_CANCELLED},
    {v1::JOB_STATE_PREPARING, v1::JOB_STATE_QUEUED},   // a worker or the coordinator was lost before training began
    {v1::JOB_STATE_PREPARING, v1::JOB_STATE_RUNNING},  // all peers are connected
    {v1::JOB_STATE_PREPARING, v1::JOB_STATE_FAILED},
    {v1::JOB_STATE_PREPARING, v1::JOB_STATE_CANCELLED},
    {v1::JOB_STATE_RUNNING, v1::JOB_STATE_RECOVERING},  // a new epoch is needed: a coordinator or a session was lost
    {v1::JOB_STATE_RUNNING, v1::JOB_STATE_PAUSED},
    {v1::JOB_STATE_RUNNING, v1::JOB_STATE_CANCELLING},  // the step in flight ends, then a checkpoint
    {v1::JOB_STATE_RUNNING, v1::JOB_STATE_SUCCEEDED},
    {v1::JOB_STATE_RUNNING, v1::JOB_STATE_FAILED},
    {v1::JOB_STATE_RUNNING, v1::JOB_STATE_CANCELLED},      // no step was committed: nothing to keep
    {v1::JOB_STATE_RECOVERING, v1::JOB_STATE_RUNNING},     // all peers are connected again
    {v1::JOB_STATE_RECOVERING, v1::JOB_STATE_PAUSED},      // recovers, and then stays where it is
    {v1::JOB_STATE_RECOVERING, v1::JOB_STATE_CANCELLING},  // recovers, and then writes its checkpoint
    {v1::JOB_STATE_RECOVERING, v1::JOB_STATE_FAILED},
    {v1::JOB_STATE_RECOVERING, v1::JOB_STATE_CANCELLED},
    {v1::JOB_STATE_PAUSED, v1::JOB_STATE_RUNNING},
    {v1::JOB_STATE_PAUSED, v1::JOB_STATE_RECOVERING},  // resumed while it recovers
    {v1::JOB_STATE_PAUSED, v1::JOB_STATE_CANCELLING},
    {v1::JOB_STATE_PAUSED, v1::JOB_STATE_FAILED},
    {v1::JOB_STATE_PAUSED, v1::JOB_STATE_CANCELLED},
    {v1::JOB_STATE_CANCELLING, v1::JOB_STATE_CANCELLED},
    {v1::JOB_STATE_CANCELLING, v1::JOB_STATE_FAILED},
}};

}  // namespace

std::span<const JobStateTransition> JobStateTransitions() { return kTransitions; }

absl::Status CheckTransition(v1::JobState from, v1::JobState to) {
  if (from == to && from != v1::JOB_STATE_UNSPECIFIED && !HasEnded(from)) return absl::OkStatus();
  for (const JobStateTransition& transition : kTransitions) {
    if (transition.from == from && transition.to == to) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("a job does not go from ", JobStateName(from), " to ", JobStateName(to)));
}

bool HasEnded(v1::JobState state) {
  return state == v1::JOB_STATE_SUCCEEDED || state == v1::JOB_STATE_FAILED || state == v1::JOB_STATE_CANCELLED;
}

std::string JobStateName(v1::JobState state) {
  if (!v1::JobState_IsValid(state)) return absl::StrCat("state ", static_cast<int>(state));
  return std::string(absl::StripPrefix(v1::JobState_Name(state), "JOB_STATE_"));
}

}  // namespace stagecoach
