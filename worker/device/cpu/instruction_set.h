#ifndef STAGECOACH_WORKER_DEVICE_CPU_INSTRUCTION_SET_H_
#define STAGECOACH_WORKER_DEVICE_CPU_INSTRUCTION_SET_H_

#include <string>

#include "absl/status/status.h"

namespace stagecoach {

// The instruction set that kernels written with Highway run with here, by Highway's name: "AVX3". Part of the numerics
// class.
std::string InstructionSetName();

// FAILED_PRECONDITION when the kernels are compiled for no instruction set that this processor has.
absl::Status CheckInstructionSet();

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_CPU_INSTRUCTION_SET_H_
