// The checks of placement, channels, slots and memory: what holds before a first instruction runs.

#include <algorithm>
#include <cstddef>

#include "common/frozen_layers.h"
#include "common/memory_layout.h"
#include "common/skip_connections.h"
#include "common/status_macros.h"
#include "coordinator/program/slot_sizes.h"
#include "coordinator/program/stage_memory.h"
#include "coordinator/program/verifier_checks.h"

namespace stagecoach {
namespace {

// Bits of a transfer's tag (worker/transport).
constexpr uint64_t kMaxStages = 1 << 12;
constexpr uint64_t kMaxMicroBatches = 1 << 16;

absl::Status VerifyLayers(const v1::ModelGraph& graph, const v1::Plan& plan) {
  uint64_t next = 0;
  for (int stage = 0; stage < plan.stages_size(); ++stage) {
    const v1::StagePlan& stage_plan = plan.stages(stage);
    if (stage_plan.first_layer() != next || stage_plan.last_layer() < next) {
      return Refuse("stage ", stage, " holds layers ", stage_plan.first_layer(), " to ", stage_plan.last_layer(),
                    "; layers are covered once and in order, so it must start with layer ", next);
    }
    next = uint64_t{stage_plan.last_layer()} + 1;
  }
  if (next != static_cast<uint64_t>(graph.layers_size())) {
    return Refuse("the stages hold ", next, " layers of ", graph.layers_size());
  }
  return absl::OkStatus();
}

// Blocks of the stage, in order.
absl::Status VerifyRecomputedLayers(const v1::ModelGraph& graph, const v1::Plan& plan) {
  for (int stage = 0; stage < plan.stages_size(); ++stage) {
    const v1::StagePlan& stage_plan = plan.stages(stage);
    uint64_t next = stage_plan.first_layer();
    for (const uint32_t layer : stage_plan.recomputed_layers()) {
      const bool is_here = layer >= next && layer <= stage_plan.last_layer();
      if (!is_here || graph.layers(static_cast<int>(layer)).kind() != v1::LAYER_KIND_TRANSFORMER_BLOCK) {
        return Refuse("stage ", stage, " cannot recompute layer ", layer, ": it recomputes blocks among its layers ",
                      stage_plan.first_layer(), " to ", stage_plan.last_layer(), ", in order");
      }
      if (RoleOf(graph, layer) == LayerRole::kForwardOnly) {
        return Refuse("stage ", stage, " cannot recompute layer ", layer, ": no backward comes down to it");
      }
      next = uint64_t{layer} + 1;
    }
  }
  return absl::OkStatus();
}

bool AreEqual(const google::protobuf::RepeatedField<uint32_t>& a, const google::protobuf::RepeatedField<uint32_t>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

absl::Status VerifyStagesOfProgram(const v1::StageProgram& program, const v1::Plan& plan, const PipelineShape& shape) {
  int next = 0;
  for (int stage = 0; stage < plan.stages_size(); ++stage) {
    const v1::StagePlan& stage_plan = plan.stages(stage);
    if (stage_plan.worker_rank() != program.worker_rank()) continue;
    if (next == program.stages_size() || program.stages(next).stage() != static_cast<uint32_t>(stage) ||
        program.stages(next).first_layer() != stage_plan.first_layer() ||
        program.stages(next).last_layer() != stage_plan.last_layer()) {
      return Refuse("the program of worker ", program.worker_rank(), " does not hold stage ", stage, " with layers ",
                    stage_plan.first_layer(), " to ", stage_plan.last_layer());
    }
    if (!AreEqual(program.stages(next).recomputed_layers(), stage_plan.recomputed_layers())) {
      return Refuse("the program of worker ", program.worker_rank(), " does not recompute the layers of stage ", stage,
                    " that the plan says");
    }
    const bool frozen_below = stage > 0 && !shape.backward[static_cast<size_t>(stage)].sends_gradient;
    if (program.stages(next).frozen_below() != frozen_below) {
      return Refuse("the program of worker ", program.worker_rank(), " says that ",
                    frozen_below ? "something" : "nothing", " below stage ", stage, " is trained");
    }
    ++next;
  }
  if (next != program.stages_size()) {
    return Refuse("the program of worker ", program.worker_rank(), " holds stage ", program.stages(next).stage(),
                  ", which the plan places elsewhere");
  }
  return absl::OkStatus();
}

// What a channel of this kind between these stages must be. INVALID_ARGUMENT: the pipeline has none.
absl::StatusOr<v1::ChannelSpec> NeededChannel(const VerifierInput& input, const PipelineShape& shape,
                                              const v1::ChannelSpec& given) {
  v1::ChannelSpec needed = given;
  if (const auto skip = shape.skip_channels.find(KeyOf(given)); skip != shape.skip_channels.end()) {
    needed = skip->second;
    needed.set_num_slots(given.num_slots());
    return needed;
  }
  const uint32_t from = given.from_stage();
  const uint32_t to = given.to_stage();
  const bool in_range = from < shape.num_stages && to < shape.num_stages;
  const bool down = given.kind() == v1::CHANNEL_KIND_ACTIVATION && to == from + 1;
  const bool up = in_range && given.kind() == v1::CHANNEL_KIND_GRADIENT && from == to + 1 && shape.SendsGradient(from);
  const bool tie = given.kind() == v1::CHANNEL_KIND_TIE && from != to && shape.SendsTie(from) && shape.SendsTie(to);
  if (!in_range || !(down || up || tie)) return Refuse("nothing needs the ", ChannelName(given));
  needed.set_from_worker_rank(input.plan.stages(static_cast<int>(from)).worker_rank());
  needed.set_to_worker_rank(input.plan.stages(static_cast<int>(to)).worker_rank());
  if (tie) {
    needed.set_bytes(shape.tie->bytes);
    needed.set_bytes_per_sample(0);
    return needed;
  }
  const uint32_t boundary = input.plan.stages(static_cast<int>(std::min(from, to))).last_layer();
  needed.set_bytes(input.graph.layers(static_cast<int>(boundary)).cost().output_bytes());
  if (input.graph.micro_batch_size() == 0 || needed.bytes() % input.graph.micro_batch_size() != 0) {
    return Refuse("the output of layer ", boundary, " is not a whole number of bytes for each sample");
  }
  needed.set_bytes_per_sample(needed.bytes() / input.graph.micro_batch_size());
  return needed;
}

bool AreEqual(const v1::ChannelSpec& a, const v1::ChannelSpec& b) {
  return KeyOf(a) == KeyOf(b) && a.from_worker_rank() == b.from_worker_rank() &&
         a.to_worker_rank() == b.to_worker_rank() && a.num_slots() == b.num_slots() &&
         a.bytes_per_sample() == b.bytes_per_sample() && a.bytes() == b.bytes() &&
         AreEqual(a.skip_connections(), b.skip_connections());
}

// Channels with an end at each worker, by rank.
std::vector<size_t> NumChannelsOfWorkers(const VerifierInput& input, const PipelineShape& shape) {
  std::vector<size_t> num_channels(input.programs.size());
  const auto add = [&](uint32_t a, uint32_t b, size_t count) {
    const uint32_t from = input.plan.stages(static_cast<int>(a)).worker_rank();
    const uint32_t to = input.plan.stages(static_cast<int>(b)).worker_rank();
    num_channels[from] += count;
    if (to != from) num_channels[to] += count;
  };
  for (uint32_t stage = 0; stage + 1 < shape.num_stages; ++stage) {
    add(stage, stage + 1, shape.SendsGradient(stage + 1) ? 2 : 1);
  }
  for (const auto& [key, channel] : shape.skip_channels) add(channel.from_stage(), channel.to_stage(), 1);
  if (shape.SendsTie(shape.tie_lower_stage)) add(shape.tie_lower_stage, shape.tie_upper_stage, 2);
  return num_channels;
}

absl::Status VerifySlot(const v1::StageProgram& program, const v1::Slot& slot, uint64_t needed,
                        absl::string_view what) {
  const bool in_arena = slot.bytes() <= program.arena_bytes() && slot.offset() <= program.arena_bytes() - slot.bytes();
  if (slot.offset() % kTensorAlignment == 0 && in_arena && slot.bytes() >= needed) return absl::OkStatus();
  return Refuse("worker ", program.worker_rank(), ": a ", what, " slot of ", slot.bytes(), " bytes at ", slot.offset(),
                " must have ", needed, " bytes, start at a multiple of ", kTensorAlignment, " and end inside the ",
                program.arena_bytes(), " bytes of the arena");
}

using SlotList = google::protobuf::RepeatedPtrField<v1::Slot>;
absl::Status VerifySlotList(const v1::StageProgram& program, const SlotList& slots, uint64_t needed,
                            absl::string_view what) {
  for (const v1::Slot& slot : slots) STAGECOACH_RETURN_IF_ERROR(VerifySlot(program, slot, needed, what));
  return absl::OkStatus();
}

// F needs the front of one alone; the others need it all. That there is such a slot is not shown here.
absl::Status VerifyPendingSlots(const v1::StageProgram& program, const v1::StageSlots& stage, const SlotSizes& sizes) {
  std::vector<uint64_t> needed(static_cast<size_t>(stage.pending_size()), sizes.remade);
  for (const v1::Instruction& instruction : program.instructions()) {
    const v1::Action& action = instruction.action();
    if (action.stage() != stage.stage() || action.kind() == v1::ACTION_KIND_FORWARD) continue;
    const auto slot = static_cast<size_t>(instruction.pending_slot());
    if (instruction.pending_slot() >= 0 && slot < needed.size()) needed[slot] = sizes.pending;
  }
  for (int i = 0; i < stage.pending_size(); ++i) {
    STAGECOACH_RETURN_IF_ERROR(VerifySlot(program, stage.pending(i), needed[static_cast<size_t>(i)], "pending"));
  }
  return absl::OkStatus();
}

absl::Status VerifyStageMemory(const VerifierInput& input, int stage) {
  const v1::StagePlan& stage_plan = input.plan.stages(stage);
  const v1::StageMemory& memory = stage_plan.memory_bytes();
  const StageElements elements = ElementsOfStage(input.graph, stage_plan.first_layer(), stage_plan.last_layer());
  const uint64_t sum = memory.parameters() + memory.gradients() + memory.optimizer() + memory.activations() +
                       memory.pending_weight() + memory.receive() + memory.scratch() + memory.snapshot();
  const auto at_least = [stage](absl::string_view kind, uint64_t planned, uint64_t needed) {
    if (planned >= needed) return absl::OkStatus();
    return Refuse("stage ", stage, " needs ", needed, " bytes of ", kind, "; its plan says ", planned);
  };
  STAGECOACH_RETURN_IF_ERROR(at_least("parameters", memory.parameters(), elements.values * kParameterBytes));
  STAGECOACH_RETURN_IF_ERROR(at_least("gradients", memory.gradients(), elements.accumulators * kParameterBytes));
  return at_least("all kinds together", memory.total(), sum);
}

}  // namespace

uint32_t StageOfLayer(const v1::Plan& plan, uint32_t layer) {
  int stage = 0;
  while (plan.stages(stage).last_layer() < layer) ++stage;
  return static_cast<uint32_t>(stage);
}

absl::StatusOr<PipelineShape> VerifyPlacement(const VerifierInput& input) {
  PipelineShape shape;
  if (input.programs.empty() || input.plan.stages().empty()) return Refuse("there is no stage");
  shape.num_stages = static_cast<uint32_t>(input.plan.stages_size());
  shape.num_micro_batches = input.plan.num_micro_batches();
  shape.forward_only = input.programs[0].forward_only();
  if (shape.num_stages > kMaxStages || shape.num_micro_batches == 0 || shape.num_micro_batches > kMaxMicroBatches) {
    return Refuse(shape.num_stages, " stages and ", shape.num_micro_batches, " micro-batches; 1 to ", kMaxStages,
                  " and 1 to ", kMaxMicroBatches, " are possible");
  }
  STAGECOACH_RETURN_IF_ERROR(CheckSkipConnections(input.graph));
  STAGECOACH_RETURN_IF_ERROR(VerifyLayers(input.graph, input.plan));
  STAGECOACH_RETURN_IF_ERROR(VerifyRecomputedLayers(input.graph, input.plan));
  for (int stage = 0; stage < input.plan.stages_size(); ++stage) {
    if (input.plan.stages(stage).worker_rank() >= input.programs.size()) {
      return Refuse("stage ", stage, " is on worker ", input.plan.stages(stage).worker_rank(),
                    ", which has no program");
    }
    const v1::StagePlan& stage_plan = input.plan.stages(stage);
    shape.recomputes.push_back(!stage_plan.recomputed_layers().empty());
    shape.backward.push_back(BackwardOfStage(input.graph, stage_plan.first_layer(), stage_plan.last_layer()));
  }
  for (size_t rank = 0; rank < input.programs.size(); ++rank) {
    const v1::StageProgram& program = input.programs[rank];
    if (program.worker_rank() != rank || program.num_micro_batches() != shape.num_micro_batches ||
        program.forward_only() != shape.forward_only) {
      return Refuse("program ", rank, " is of worker ", program.worker_rank(), " for ", program.num_micro_batches(),
                    " micro-batches; the plan has ", shape.num_micro_batches);
    }
    STAGECOACH_RETURN_IF_ERROR(VerifyStagesOfProgram(program, input.plan, shape));
  }
  STAGECOACH_ASSIGN_OR_RETURN(shape.tie, FindTrainedTie(input.graph));
  if (shape.tie.has_value()) {
    shape.tie_lower_stage = StageOfLayer(input.plan, shape.tie->owner_layer);
    shape.tie_upper_stage = StageOfLayer(input.plan, shape.tie->later_layer);
  }
  STAGECOACH_RETURN_IF_ERROR(AddSkipChannels(input, shape));
  return shape;
}

absl::Status VerifyChannelSpecs(const VerifierInput& input, const PipelineShape& shape) {
  std::map<ChannelKey, const v1::ChannelSpec*> other_ends;
  const std::vector<size_t> num_channels = NumChannelsOfWorkers(input, shape);
  for (const v1::StageProgram& program : input.programs) {
    const size_t num_needed = num_channels[program.worker_rank()];
    if (num_needed != static_cast<size_t>(program.channels_size()) ||
        program.channel_slots_size() != program.channels_size()) {
      return Refuse("worker ", program.worker_rank(), " has ", program.channels_size(), " channels, ",
                    program.channel_slots_size(), " of them with slots; its stages need ", num_needed);
    }
    std::map<ChannelKey, int> seen;
    for (const v1::ChannelSpec& channel : program.channels()) {
      STAGECOACH_ASSIGN_OR_RETURN(const v1::ChannelSpec needed, NeededChannel(input, shape, channel));
      const v1::ChannelSpec* other = other_ends.try_emplace(KeyOf(channel), &channel).first->second;
      const bool is_here =
          channel.from_worker_rank() == program.worker_rank() || channel.to_worker_rank() == program.worker_rank();
      if (!is_here || ++seen[KeyOf(channel)] > 1 || channel.num_slots() == 0 || !AreEqual(channel, needed) ||
          !AreEqual(channel, *other)) {
        return Refuse("worker ", program.worker_rank(), ": the ", ChannelName(channel), " is not what its ",
                      channel.skip_connections().empty() ? "cut needs" : "connections need",
                      ", or not the same at both ends: ", channel.ShortDebugString());
      }
    }
  }
  return absl::OkStatus();
}

absl::Status VerifySlots(const VerifierInput& input, const PipelineShape& shape) {
  for (const v1::StageProgram& program : input.programs) {
    for (const v1::StageSlots& stage : program.stages()) {
      const SlotSizes sizes = SlotSizesOf(input.graph, LayersOf(stage), shape.forward_only);
      STAGECOACH_RETURN_IF_ERROR(VerifySlotList(program, stage.load(), sizes.load, "load"));
      STAGECOACH_RETURN_IF_ERROR(VerifySlotList(program, stage.saved(), sizes.saved, "saved"));
      STAGECOACH_RETURN_IF_ERROR(VerifySlotList(program, stage.shared(), sizes.shared, "shared"));
      STAGECOACH_RETURN_IF_ERROR(VerifyPendingSlots(program, stage, sizes));
      STAGECOACH_RETURN_IF_ERROR(VerifySlotList(program, stage.recomputed(), sizes.recomputed, "recomputed"));
      STAGECOACH_RETURN_IF_ERROR(VerifySlot(program, program.scratch(), sizes.scratch, "scratch"));
    }
    for (int i = 0; i < program.channels_size(); ++i) {
      const v1::ChannelSpec& channel = program.channels(i);
      const SlotList& slots = program.channel_slots(i).slots();
      // A buffer that is sent from is waited for before it is written again, so that posts are as many as buffers.
      // Receives are counted; they take turns in as many buffers as one likes.
      const bool sends = channel.from_worker_rank() == program.worker_rank();
      if (slots.empty() || (sends && static_cast<uint32_t>(slots.size()) > channel.num_slots())) {
        return Refuse("worker ", program.worker_rank(), ": the ", ChannelName(channel), " has ", slots.size(),
                      " buffers for ", channel.num_slots(), " posts");
      }
      STAGECOACH_RETURN_IF_ERROR(VerifySlotList(program, slots, channel.bytes(), "transfer"));
    }
  }
  return absl::OkStatus();
}

absl::Status VerifyMemory(const VerifierInput& input) {
  std::vector<uint64_t> arena(input.programs.size());
  std::vector<uint64_t> total(input.programs.size());
  for (int stage = 0; stage < input.plan.stages_size(); ++stage) {
    STAGECOACH_RETURN_IF_ERROR(VerifyStageMemory(input, stage));
    const v1::StageMemory& memory = input.plan.stages(stage).memory_bytes();
    const uint32_t worker = input.plan.stages(stage).worker_rank();
    // Slots share bytes, so that what counts of the kinds is their sum.
    arena[worker] += memory.activations() + memory.pending_weight() + memory.receive() + memory.scratch();
    total[worker] += memory.total();
  }
  for (size_t worker = 0; worker < input.programs.size(); ++worker) {
    if (input.programs[worker].arena_bytes() > arena[worker]) {
      return Refuse("worker ", worker, ": the arena has ", input.programs[worker].arena_bytes(),
                    " bytes; the plan of its stages says ", arena[worker]);
    }
    if (worker < input.memory_limit_bytes.size() && total[worker] > input.memory_limit_bytes[worker]) {
      return Refuse("worker ", worker, " needs ", total[worker], " bytes and has ", input.memory_limit_bytes[worker]);
    }
  }
  return absl::OkStatus();
}

}  // namespace stagecoach
