#include "coordinator/program/lowering.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/skip_connections.h"
#include "common/status_macros.h"
#include "coordinator/program/lowering_passes.h"
#include "coordinator/program/verifier_checks.h"

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

// What a stage does in the backward, its table's actions have; that they have all of it is left to the verifier.
absl::Status CheckBackward(const v1::Action& action, const StageBackward& backward) {
  const v1::ActionKind kind = action.kind();
  const bool is_whole = kind == v1::ACTION_KIND_BACKWARD;
  const bool makes_weight = is_whole || kind == v1::ACTION_KIND_BACKWARD_WEIGHT;
  const bool makes_input = is_whole || kind == v1::ACTION_KIND_BACKWARD_INPUT || kind == v1::ACTION_KIND_RECOMPUTE;
  if (makes_weight && !backward.weight) {
    return absl::InvalidArgumentError(absl::StrCat(ActionText(action), ": every layer of its stage is frozen"));
  }
  if (makes_input && !backward.input) {
    return absl::InvalidArgumentError(
        absl::StrCat(ActionText(action), ": every layer of its stage and below is frozen"));
  }
  return absl::OkStatus();
}

absl::Status CheckTable(const v1::ComputeTable& table, const v1::Plan& plan,
                        const std::vector<StageBackward>& backward) {
  if (uint64_t{table.num_stages()} * table.num_micro_batches() > kMaxLoweredForwards) {
    return absl::InvalidArgumentError(absl::StrCat(table.num_stages(), " stages x ", table.num_micro_batches(),
                                                   " micro-batches is more than ", kMaxLoweredForwards,
                                                   "; use larger micro-batches or fewer stages"));
  }
  for (int worker = 0; worker < table.workers_size(); ++worker) {
    for (const v1::Action& action : table.workers(worker).actions()) {
      const bool is_compute = action.kind() >= v1::ACTION_KIND_FORWARD && action.kind() <= v1::ACTION_KIND_RECOMPUTE;
      if (!is_compute || action.stage() >= table.num_stages() || action.micro_batch() >= table.num_micro_batches() ||
          plan.stages(static_cast<int>(action.stage())).worker_rank() != static_cast<uint32_t>(worker)) {
        return absl::InvalidArgumentError(
            absl::StrCat(ActionText(action), " on worker ", worker, " is not an action of this plan"));
      }
      if (action.kind() == v1::ACTION_KIND_RECOMPUTE &&
          plan.stages(static_cast<int>(action.stage())).recomputed_layers().empty()) {
        return absl::InvalidArgumentError(
            absl::StrCat(ActionText(action), ": the plan of its stage has no layers to recompute"));
      }
      STAGECOACH_RETURN_IF_ERROR(CheckBackward(action, backward[action.stage()]));
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

// B is I and W with nothing between: programs have these alone.
v1::ComputeTable ExpandTable(const v1::ComputeTable& table) {
  v1::ComputeTable expanded;
  expanded.set_schedule(table.schedule());
  expanded.set_num_stages(table.num_stages());
  expanded.set_num_micro_batches(table.num_micro_batches());
  for (const v1::WorkerActions& row : table.workers()) {
    v1::WorkerActions& added = *expanded.add_workers();
    for (const v1::Action& action : row.actions()) {
      *added.add_actions() = action;
      if (action.kind() != v1::ACTION_KIND_BACKWARD) continue;
      added.mutable_actions(added.actions_size() - 1)->set_kind(v1::ACTION_KIND_BACKWARD_INPUT);
      *added.add_actions() = action;
      added.mutable_actions(added.actions_size() - 1)->set_kind(v1::ACTION_KIND_BACKWARD_WEIGHT);
    }
  }
  return expanded;
}

std::vector<StageBackward> BackwardOfPlan(const v1::ModelGraph& graph, const v1::Plan& plan) {
  std::vector<StageBackward> backward;
  for (const v1::StagePlan& stage : plan.stages()) {
    backward.push_back(BackwardOfStage(graph, stage.first_layer(), stage.last_layer()));
  }
  return backward;
}

bool SomeStageRunsAhead(const LoweringContext& context) {
  for (uint32_t stage = 0; stage < context.num_stages(); ++stage) {
    if (context.RunsAhead(stage)) return true;
  }
  return false;
}

absl::StatusOr<Programs> LowerWith(const LoweringContext& context, ReceivePlacement placement, ChannelPlans& channels) {
  STAGECOACH_RETURN_IF_ERROR(PlaceReceives(context, placement, channels));
  Programs programs = EmitPrograms(context, channels);
  STAGECOACH_RETURN_IF_ERROR(AssignSlots(context, channels, programs));
  return programs;
}

// With sends that wait for their receives, the hardest to end.
bool Ends(const LoweringContext& context, const Programs& programs) {
  return VerifyTermination(
             {.programs = programs, .graph = context.graph, .plan = context.plan, .memory_limit_bytes = {}})
      .ok();
}

}  // namespace

absl::StatusOr<std::vector<v1::StageProgram>> Lower(const v1::ComputeTable& table, const v1::ModelGraph& graph,
                                                    const v1::Plan& plan, const LoweringOptions& options) {
  if (options.credit_window == 0) return absl::InvalidArgumentError("a credit window has at least one slot");
  STAGECOACH_RETURN_IF_ERROR(CheckSkipConnections(graph));
  STAGECOACH_RETURN_IF_ERROR(CheckPlan(table, graph, plan));
  const std::vector<StageBackward> backward = BackwardOfPlan(graph, plan);
  STAGECOACH_RETURN_IF_ERROR(CheckTable(table, plan, backward));
  STAGECOACH_ASSIGN_OR_RETURN(const std::optional<TiedTensor> tie, FindTrainedTie(graph));
  const v1::ComputeTable expanded = ExpandTable(table);
  const bool forward_only = IsForwardOnly(table);
  const LoweringContext context{.table = expanded,
                                .graph = graph,
                                .plan = plan,
                                .options = options,
                                .forward_only = forward_only,
                                .tie = tie,
                                .backward = backward,
                                .skip_edges = SkipEdgesOf(graph, plan, !forward_only)};
  STAGECOACH_ASSIGN_OR_RETURN(ChannelPlans channels, PlanChannels(context));
  Programs programs;
  // A window smaller than what the prediction asks for may hold a receive back for too long.
  for (const ReceivePlacement placement :
       {ReceivePlacement::kPredicted, ReceivePlacement::kPredictedUnbounded, ReceivePlacement::kEarliest}) {
    const bool is_as_before = placement == ReceivePlacement::kPredictedUnbounded && !SomeStageRunsAhead(context);
    if (is_as_before) continue;
    STAGECOACH_ASSIGN_OR_RETURN(programs, LowerWith(context, placement, channels));
    if (Ends(context, programs)) break;
  }
  for (v1::StageProgram& program : programs) program.set_content_hash(ContentHash(program));
  return programs;
}

}  // namespace stagecoach
