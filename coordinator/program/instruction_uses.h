#ifndef STAGECOACH_COORDINATOR_PROGRAM_INSTRUCTION_USES_H_
#define STAGECOACH_COORDINATOR_PROGRAM_INSTRUCTION_USES_H_

#include <string>

#include "coordinator/program/verifier_checks.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// What is wrong with the slots and channels that an instruction names: by its kind and stage it must name those that it
// uses and nothing else. Empty: nothing. That there is such a slot is not shown here.
std::string WrongUses(const v1::Instruction& instruction, const v1::StageProgram& program, const PipelineShape& shape);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_INSTRUCTION_USES_H_
