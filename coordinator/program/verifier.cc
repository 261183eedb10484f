#include "coordinator/program/verifier.h"

#include <utility>

#include "common/status_macros.h"
#include "coordinator/program/verifier_checks.h"

namespace stagecoach {

absl::Status Verify(const VerifierInput& input) {
  STAGECOACH_ASSIGN_OR_RETURN(const PipelineShape shape, VerifyPlacement(input));
  STAGECOACH_RETURN_IF_ERROR(VerifyChannelSpecs(input, shape));
  STAGECOACH_RETURN_IF_ERROR(VerifySlots(input, shape));
  std::vector<Posts> posts_of_worker;
  for (const v1::StageProgram& program : input.programs) {
    STAGECOACH_ASSIGN_OR_RETURN(Posts posts, VerifyOrder(program, shape));
    posts_of_worker.push_back(std::move(posts));
  }
  STAGECOACH_RETURN_IF_ERROR(VerifyTransfers(input, posts_of_worker));
  STAGECOACH_RETURN_IF_ERROR(VerifyTermination(input));
  return VerifyMemory(input);
}

}  // namespace stagecoach
