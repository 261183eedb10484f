#ifndef STAGECOACH_COORDINATOR_PROGRAM_TESTING_ACTION_H_
#define STAGECOACH_COORDINATOR_PROGRAM_TESTING_ACTION_H_

#include <cstdint>

#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

inline v1::Action MakeAction(v1::ActionKind kind, uint32_t stage, uint32_t micro_batch) {
  v1::Action action;
  action.set_kind(kind);
  action.set_stage(stage);
  action.set_micro_batch(micro_batch);
  return action;
}

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_TESTING_ACTION_H_
