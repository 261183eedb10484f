#ifndef STAGECOACH_COORDINATOR_PROGRAM_ARENA_SHARES_H_
#define STAGECOACH_COORDINATOR_PROGRAM_ARENA_SHARES_H_

#include <cstdint>
#include <map>

#include "stagecoach/v1/plan.pb.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// Divides a program's arena among its stages: activations, pending_weight, receive and scratch of each, which sum to
// arena_bytes. Bytes that several slots take turns in count once, for the first of activations, pending weights,
// transfers and scratch, and there for the lowest stage. A channel within the worker is its receiver's. By stage.
std::map<uint32_t, v1::StageMemory> ShareArena(const v1::StageProgram& program);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_ARENA_SHARES_H_
