#ifndef STAGECOACH_COORDINATOR_PROGRAM_INSTRUCTION_USES_H_
#define STAGECOACH_COORDINATOR_PROGRAM_INSTRUCTION_USES_H_

#include "coordinator/program/verifier_checks.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// What an instruction uses, by its kind and stage. It must name these and nothing else.
struct InstructionUses {
  bool load = false, recv = false, send = false, saved = false, shared = false, pending = false;
  bool recomputed = false, post = false;
};
InstructionUses UsesOf(const v1::Action& action, const PipelineShape& shape);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_INSTRUCTION_USES_H_
