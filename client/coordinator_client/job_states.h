#ifndef STAGECOACH_CLIENT_COORDINATOR_CLIENT_JOB_STATES_H_
#define STAGECOACH_CLIENT_COORDINATOR_CLIENT_JOB_STATES_H_

#include "stagecoach/v1/job.pb.h"

namespace stagecoach {

inline bool IsTerminal(v1::JobState state) {
  return state == v1::JOB_STATE_SUCCEEDED || state == v1::JOB_STATE_FAILED || state == v1::JOB_STATE_CANCELLED;
}

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COORDINATOR_CLIENT_JOB_STATES_H_
