#include "coordinator/program/schedule_proof.h"

#include <utility>

#include "common/status_macros.h"
#include "coordinator/program/lowering.h"
#include "coordinator/program/stage_memory.h"
#include "coordinator/program/uniform_model.h"
#include "coordinator/schedule/recomputing_table.h"
#include "coordinator/schedule/stage_placement.h"
#include "xxhash.h"

namespace stagecoach {
namespace {

std::string HashOfHashes(const std::vector<v1::StageProgram>& programs) {
  std::string hashes;
  for (const v1::StageProgram& program : programs) hashes += program.content_hash();
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(hashes.data(), hashes.size()));
  return std::string(reinterpret_cast<const char*>(canonical.digest), sizeof(canonical.digest));
}

absl::StatusOr<ProvenSchedule> Prove(std::vector<v1::StageProgram> programs, PlannedModel model, SendSemantics sends) {
  FillStageMemory(model.graph, programs, {}, {}, model.plan);
  STAGECOACH_RETURN_IF_ERROR(Verify(
      {.programs = programs, .graph = model.graph, .plan = model.plan, .memory_limit_bytes = {}, .sends = sends}));
  ProvenSchedule proven;
  proven.program_hash = HashOfHashes(programs);
  for (const v1::StageProgram& program : programs) proven.num_receive_slots += NumReceiveSlots(program);
  proven.programs = std::move(programs);
  return proven;
}

}  // namespace

absl::StatusOr<ProvenSchedule> ProveTable(const v1::ComputeTable& table, const ScheduleProblem& problem,
                                          SendSemantics sends) {
  STAGECOACH_ASSIGN_OR_RETURN(const std::vector<uint32_t> worker_of_stage, WorkersOfStages(table));
  PlannedModel model =
      MakeUniformModel(worker_of_stage, table.num_micro_batches(), problem.cost_of_stage, RecomputingStages(table));
  model.plan.set_schedule(table.schedule());
  STAGECOACH_ASSIGN_OR_RETURN(std::vector<v1::StageProgram> programs, Lower(table, model.graph, model.plan, {}));
  return Prove(std::move(programs), std::move(model), sends);
}

absl::StatusOr<ProvenSchedule> ProvePrograms(std::vector<v1::StageProgram> programs, SendSemantics sends) {
  STAGECOACH_ASSIGN_OR_RETURN(PlannedModel model, ModelOfPrograms(programs));
  return Prove(std::move(programs), std::move(model), sends);
}

}  // namespace stagecoach
