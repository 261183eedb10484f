#include "coordinator/program/lowering.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "coordinator/program/lowering_passes.h"

namespace stagecoach {
namespace {

absl::Status CheckPlan(const v1::ComputeTable& table, const v1::ModelGraph& graph, const v1::Plan& plan) {
  if (table.num_stages() == 0 || static_cast<int64_t>(table.num_stages()) != plan.stages_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a table of ", table.num_stages(), " stages for a plan of ", plan.stages_size()));
  }
  uint32_t next_layer = 0;
  for (const v1::StagePlan& stage : plan.stages()) {
    if (stage.worker_rank() >= static_cast<uint32_t>(table.workers_size())) {
      return absl::InvalidArgumentError(absl::StrCat("the plan places a stage on worker ", stage.worker_rank(),
                                                     "; the table has ", table.workers_size(), " workers"));
    }
    if (stage.first_layer() != next_layer || stage.last_layer() < next_layer) {
      return absl::InvalidArgumentError(absl::StrCat("a stage holds layers ", stage.first_layer(), " to ",
                                                     stage.last_layer(), "; it should start with layer ", next_layer));
    }
    next_layer = stage.last_layer() + 1;
  }
  if (static_cast<int64_t>(next_layer) != graph.layers_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan's stages hold ", next_layer, " layers of ", graph.layers_size()));
  }
  return absl::OkStatus();
}

absl::Status CheckTable(const v1::ComputeTable& table, const v1::Plan& plan) {
  constexpr uint64_t kMaxForwards = 1 << 19;  // each becomes up to ten instructions
  if (uint64_t{table.num_stages()} * table.num_micro_batches() > kMaxForwards) {
    return absl::InvalidArgumentError(absl::StrCat(table.num_stages(), " stages x ", table.num_micro_batches(),
                                                   " micro-batches is more than ", kMaxForwards,
                                                   "; use larger micro-batches or fewer stages"));
  }
  for (int worker = 0; worker < table.workers_size(); ++worker) {
    for (const v1::Action& action : table.workers(worker).actions()) {
      const bool is_compute = action.kind() == v1::ACTION_KIND_FORWARD || action.kind() == v1::ACTION_KIND_BACKWARD ||
                              action.kind() == v1::ACTION_KIND_BACKWARD_INPUT ||
                              action.kind() == v1::ACTION_KIND_BACKWARD_WEIGHT;
      if (!is_compute || action.stage() >= table.num_stages() || action.micro_batch() >= table.num_micro_batches() ||
          plan.stages(static_cast<int>(action.stage())).worker_rank() != static_cast<uint32_t>(worker)) {
        return absl::InvalidArgumentError(
            absl::StrCat(ActionText(action), " on worker ", worker, " is not an action of this plan"));
      }
    }
  }
  return absl::OkStatus();
}

bool IsForwardOnly(const v1::ComputeTable& table) {
  return std::all_of(table.workers().begin(), table.workers().end(), [](const v1::WorkerActions& row) {
    return std::all_of(row.actions().begin(), row.actions().end(),
                       [](const v1::Action& action) { return action.kind() == v1::ACTION_KIND_FORWARD; });
  });
}

Programs EmptyPrograms(const LoweringContext& context) {
  Programs programs(static_cast<size_t>(context.table.workers_size()));
  for (size_t worker = 0; worker < programs.size(); ++worker) {
    programs[worker].set_schedule(context.table.schedule());
    programs[worker].set_worker_rank(static_cast<uint32_t>(worker));
    programs[worker].set_num_micro_batches(context.table.num_micro_batches());
    programs[worker].set_forward_only(context.forward_only);
  }
  return programs;
}

}  // namespace

absl::StatusOr<std::vector<v1::StageProgram>> Lower(const v1::ComputeTable& table, const v1::ModelGraph& graph,
                                                    const v1::Plan& plan, const LoweringOptions& options) {
  if (options.credit_window == 0) return absl::InvalidArgumentError("a credit window has at least one slot");
  STAGECOACH_RETURN_IF_ERROR(CheckPlan(table, graph, plan));
  STAGECOACH_RETURN_IF_ERROR(CheckTable(table, plan));
  STAGECOACH_ASSIGN_OR_RETURN(const std::optional<TiedTensor> tie, FindTiedTensor(graph));
  const LoweringContext context{.table = table,
                                .graph = graph,
                                .plan = plan,
                                .options = options,
                                .forward_only = IsForwardOnly(table),
                                .tie = tie};
  Programs programs = EmptyPrograms(context);
  ExpandTable(context, programs);
  PlaceLoadsAndLosses(context, programs);
  STAGECOACH_RETURN_IF_ERROR(PlaceChannels(context, programs));
  STAGECOACH_RETURN_IF_ERROR(PlaceReceives(context, programs));
  PlaceSends(context, programs);
  PlaceTiesAndNorms(context, programs);
  STAGECOACH_RETURN_IF_ERROR(AssignSlots(context, programs));
  STAGECOACH_RETURN_IF_ERROR(LayOutArenas(context, programs));
  for (v1::StageProgram& program : programs) program.set_content_hash(ContentHash(program));
  return programs;
}

}  // namespace stagecoach
