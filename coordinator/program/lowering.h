#ifndef STAGECOACH_COORDINATOR_PROGRAM_LOWERING_H_
#define STAGECOACH_COORDINATOR_PROGRAM_LOWERING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/action_text.h"
#include "stagecoach/v1/plan.pb.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

struct LoweringOptions {
  uint32_t credit_window = 2;  // slots of a channel: transfers that may be under way at a time
};

// Adds to a compute-only table what makes it run: loads, receives posted as early as their slot is free, sends, losses,
// ties, norms; numbers every channel; assigns slots by lifetime and lays them out in one arena per worker. One program
// per worker. `plan` needs its stages' workers and layers only. Pure. INVALID_ARGUMENT: the table is not of this plan.
absl::StatusOr<std::vector<v1::StageProgram>> Lower(const v1::ComputeTable& table, const v1::ModelGraph& graph,
                                                    const v1::Plan& plan, const LoweringOptions& options);

// Canonical, for golden files and people: a line for the program, each channel, each stage and each instruction.
std::string ProgramText(const v1::StageProgram& program);

// XXH3-128 of all fields but content_hash: 16 bytes.
std::string ContentHash(const v1::StageProgram& program);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_LOWERING_H_
