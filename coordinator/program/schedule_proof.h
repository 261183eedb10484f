#ifndef STAGECOACH_COORDINATOR_PROGRAM_SCHEDULE_PROOF_H_
#define STAGECOACH_COORDINATOR_PROGRAM_SCHEDULE_PROOF_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/program/verifier.h"
#include "coordinator/schedule/schedule.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// Programs that the verifier has shown to run.
struct ProvenSchedule {
  std::vector<v1::StageProgram> programs;  // by worker rank
  uint32_t num_receive_slots = 0;          // of all workers together
  std::string program_hash;                // XXH3-128 of the programs' content hashes: 16 bytes
};

// A compute table, lowered for a model of equal stages (MakeUniformModel) and shown to run under `sends`; of `problem`
// the times are used. INVALID_ARGUMENT with the counter-example of Verify, or why the table cannot be lowered. Pure.
absl::StatusOr<ProvenSchedule> ProveTable(const v1::ComputeTable& table, const ScheduleProblem& problem,
                                          SendSemantics sends);

// Programs as they stand, for the least model that they allow (ModelOfPrograms).
absl::StatusOr<ProvenSchedule> ProvePrograms(std::vector<v1::StageProgram> programs, SendSemantics sends);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_SCHEDULE_PROOF_H_
