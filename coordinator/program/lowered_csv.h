#ifndef STAGECOACH_COORDINATOR_PROGRAM_LOWERED_CSV_H_
#define STAGECOACH_COORDINATOR_PROGRAM_LOWERED_CSV_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/schedule/action_sheet.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// PyTorch's lowered format: a row for each worker, cells like 2F0, 2SEND_F0, 1RECV_B3. What it has no word for is left
// out: loads, losses, ties, norms. INVALID_ARGUMENT: the programs have skip edges; a cell cannot say on which edge it
// sends.
absl::StatusOr<std::string> LoweredCsv(std::span<const v1::StageProgram> programs);

// Programs that do what a lowered sheet says, in its order: for a model of equal stages (MakeUniformModel), with loads
// and losses where the verifier wants them, norms at the end, and a slot of its own for everything, since a sheet has
// none. Neighbours on one worker hand over without a transfer. UNSHARD and RESHARD are held against the actions between
// them, REDUCE_GRAD against the last W, and dropped. INVALID_ARGUMENT names line, column and cell: as
// CheckComputeActions; a SEND or RECV twice, without or before its action, between stages of one worker; a missing one;
// an action on a stage that is not there. Whether the programs run is for Verify to say, under
// SendSemantics::kBlocking: here a SEND holds its worker up.
absl::StatusOr<std::vector<v1::StageProgram>> ProgramsOfSheet(const ActionSheet& sheet);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_LOWERED_CSV_H_
