#ifndef STAGECOACH_COORDINATOR_PROGRAM_STEP_BOUND_H_
#define STAGECOACH_COORDINATOR_PROGRAM_STEP_BOUND_H_

#include "coordinator/program/stage_times.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// No order of the actions of a table that can run makes a step shorter: the longest of
//  - each worker's work, with the way of the first micro-batch to it and of the last one from it to where it ends;
//  - what each direction of an edge carries, one transfer after another, with the way of the first one to it and of the
//    last one from it.
// Skip edges are left out: they only let actions wait for longer. Memory is not limited. (AutoBound, which knows the
// order within a stage and the memory, is tighter and slower.) Pure.
double StepBound(const v1::ComputeTable& table, const StageTimes& times);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_STEP_BOUND_H_
