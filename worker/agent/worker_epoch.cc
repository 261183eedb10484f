#include "worker/agent/worker_epoch.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/action_text.h"
#include "common/check.h"
#include "common/frozen_layers.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

// Between two stages of this worker: no transport carries it.
bool IsLocal(const v1::ChannelSpec& spec) { return spec.from_worker_rank() == spec.to_worker_rank(); }

bool IsSameEdge(const v1::ChannelSpec& a, const v1::ChannelSpec& b) {
  return a.from_stage() == b.from_stage() && a.to_stage() == b.to_stage() && a.kind() == b.kind();
}

// What a program was lowered for is what the graph says.
absl::Status CheckFrozen(const v1::ModelGraph& graph, const v1::StageSlots& stage) {
  const StageBackward backward = BackwardOfStage(graph, stage.first_layer(), stage.last_layer());
  const bool frozen_below = stage.first_layer() > 0 && !backward.sends_gradient;
  if (stage.frozen_below() == frozen_below) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the program says that ", frozen_below ? "something" : "nothing",
                                                 " below stage ", stage.stage(), " is trained, the graph does not"));
}

absl::Status CheckSkips(const v1::ModelGraph& graph, const v1::StageProgram& program) {
  for (int i = 0; i < program.channels_size(); ++i) {
    for (const uint32_t connection : program.channels(i).skip_connections()) {
      if (connection < static_cast<uint32_t>(graph.skip_connections_size())) continue;
      return absl::InvalidArgumentError(absl::StrCat("channel ", i, " of the program carries skip connection ",
                                                     connection, ", the graph has ", graph.skip_connections_size()));
    }
  }
  return absl::OkStatus();
}

std::vector<uint32_t> RecomputedLayers(const v1::StageSlots& stage) {
  return {stage.recomputed_layers().begin(), stage.recomputed_layers().end()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerEpoch>> WorkerEpoch::Create(Context context) {
  auto epoch = absl::WrapUnique(new WorkerEpoch(std::move(context)));
  STAGECOACH_RETURN_IF_ERROR(epoch->CheckEvaluation());
  STAGECOACH_RETURN_IF_ERROR(epoch->Allocate());
  return epoch;
}

absl::Status WorkerEpoch::CheckEvaluation() const {
  if (!has_evaluation()) return absl::OkStatus();
  bool is_same = program().stages_size() == evaluation_program().stages_size();
  for (int i = 0; is_same && i < program().stages_size(); ++i) {
    is_same = program().stages(i).stage() == evaluation_program().stages(i).stage() &&
              program().stages(i).first_layer() == evaluation_program().stages(i).first_layer() &&
              program().stages(i).last_layer() == evaluation_program().stages(i).last_layer() &&
              RecomputedLayers(program().stages(i)) == RecomputedLayers(evaluation_program().stages(i));
  }
  return is_same ? absl::OkStatus()
                 : absl::InvalidArgumentError("the evaluation program has other stages than the training program");
}

absl::Status WorkerEpoch::Allocate() {
  const AgentOptions& options = context_.options;
  const v1::AssignStages& assignment = *context_.assignment;
  for (const v1::StageProgram* each : {&program(), &evaluation_program()}) {
    STAGECOACH_RETURN_IF_ERROR(CheckSkips(assignment.graph(), *each));
  }
  STAGECOACH_ASSIGN_OR_RETURN(stream_, context_.device.CreateStream());
  for (size_t i = 0; i < context_.states.size(); ++i) {
    const v1::StageSlots& slots = program().stages(static_cast<int>(i));
    STAGECOACH_RETURN_IF_ERROR(CheckFrozen(assignment.graph(), slots));
    STAGECOACH_ASSIGN_OR_RETURN(
        std::unique_ptr<Stage> stage,
        options.stage_factory(context_.device, assignment.spec(), assignment.graph(),
                              {slots.first_layer(), slots.last_layer(), RecomputedLayers(slots)}, *context_.states[i]));
    stages_.push_back(std::move(stage));
  }
  STAGECOACH_ASSIGN_OR_RETURN(data_, options.batch_source_factory(assignment.spec(), options.files));
  const uint64_t arena_bytes = std::max(program().arena_bytes(), evaluation_program().arena_bytes());
  STAGECOACH_ASSIGN_OR_RETURN(arena_, context_.device.Allocate(arena_bytes, MemoryKind::kDevice));
  STAGECOACH_ASSIGN_OR_RETURN(transport_,
                              options.transport_factory(context_.fence, WorkerRank(program().worker_rank())));
  if (!transport_->capabilities().device_memory && !context_.device.capabilities().host_addressable) {
    return absl::FailedPreconditionError(absl::StrCat("the transport needs host memory, and that of device ",
                                                      context_.device.capabilities().kind,
                                                      " is not: choose another transport"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> WorkerEpoch::Connect(const v1::ConnectPeers& peers) {
  if (training_ != nullptr) return absl::FailedPreconditionError("the peers are connected already");
  std::vector<TransportPeer> list;
  for (const v1::Peer& peer : peers.peers()) list.push_back({Incarnation(peer.incarnation()), peer.endpoint()});
  STAGECOACH_RETURN_IF_ERROR(transport_->Connect(list, context_.options.connect_timeout));
  channels_.clear();
  CollectChannels(program());
  if (has_evaluation()) CollectChannels(evaluation_program());
  for (OpenChannel& open : channels_) {
    STAGECOACH_ASSIGN_OR_RETURN(open.channel, transport_->Open(open.spec));
  }
  STAGECOACH_ASSIGN_OR_RETURN(training_, MakeExecutor(program()));
  if (has_evaluation()) {
    STAGECOACH_ASSIGN_OR_RETURN(evaluation_, MakeExecutor(evaluation_program()));
  }
  STAGECOACH_RETURN_IF_ERROR(Publish());
  std::vector<std::string> routes;
  for (const v1::ChannelSpec& spec : program().channels()) {
    routes.push_back(IsLocal(spec) ? "local" : FindChannel(spec)->route());
  }
  return routes;
}

// Both programs use one channel for an edge, with the slots of whichever needs more: the peer computes the same.
void WorkerEpoch::CollectChannels(const v1::StageProgram& program) {
  for (const v1::ChannelSpec& spec : program.channels()) {
    if (IsLocal(spec)) continue;
    const auto known = std::find_if(channels_.begin(), channels_.end(),
                                    [&](const OpenChannel& open) { return IsSameEdge(open.spec, spec); });
    if (known == channels_.end()) {
      channels_.push_back({.spec = spec, .channel = nullptr});
    } else {
      known->spec.set_num_slots(std::max(known->spec.num_slots(), spec.num_slots()));
    }
  }
}

Channel* WorkerEpoch::FindChannel(const v1::ChannelSpec& spec) {
  if (IsLocal(spec)) return nullptr;
  const auto found = std::find_if(channels_.begin(), channels_.end(),
                                  [&](const OpenChannel& open) { return IsSameEdge(open.spec, spec); });
  STAGECOACH_CHECK(found != channels_.end());
  return found->channel.get();
}

absl::StatusOr<std::unique_ptr<Executor>> WorkerEpoch::MakeExecutor(const v1::StageProgram& program) {
  Executor::Collaborators collaborators{.device = context_.device,
                                        .stream = *stream_,
                                        .data = *data_,
                                        .stages = {},
                                        .states = context_.states,
                                        .channels = {},
                                        .arena = {arena_->data(), arena_->bytes()},
                                        .micro_batch_size = context_.assignment->graph().micro_batch_size(),
                                        .seq_len = context_.assignment->graph().seq_len(),
                                        .transfer_timeout = context_.options.transfer_timeout,
                                        .trace = program.forward_only() ? nullptr : &context_.trace,
                                        .epoch = context_.fence.epoch};
  for (const auto& stage : stages_) collaborators.stages.push_back(stage.get());
  for (const v1::ChannelSpec& spec : program.channels()) {
    collaborators.channels.push_back(FindChannel(spec));
  }
  return Executor::Create(program, std::move(collaborators));
}

absl::Status WorkerEpoch::Publish() {
  MutexLock lock(mutex_);
  abortable_.push_back(training_.get());
  if (evaluation_ != nullptr) abortable_.push_back(evaluation_.get());
  return aborted_;
}

absl::StatusOr<const RunReport*> WorkerEpoch::Run(const v1::RunStep& order) {
  Executor* executor = (order.evaluation() ? evaluation_ : training_).get();
  const std::string& hash = (order.evaluation() ? evaluation_program() : program()).content_hash();
  if (executor == nullptr) {
    return absl::FailedPreconditionError(training_ == nullptr ? "the peers are not connected"
                                                              : "no evaluation program was assigned");
  }
  if (order.program_hash() != hash) {
    return absl::FailedPreconditionError("the order is for another program than the one assigned in this epoch");
  }
  SetRunning(executor);
  absl::StatusOr<const RunReport*> report = executor->Run(order);
  SetRunning(nullptr);
  return report;
}

void WorkerEpoch::SetRunning(const Executor* executor) {
  MutexLock lock(mutex_);
  running_ = executor;
  if (executor != nullptr) ++num_runs_;
}

std::optional<v1::RunState> WorkerEpoch::run_state() const {
  MutexLock lock(mutex_);
  if (running_ == nullptr) return std::nullopt;
  const ExecutorProgress progress = running_->progress();
  const auto& instructions = (running_ == evaluation_.get() ? evaluation_program() : program()).instructions();
  v1::RunState state;
  state.set_run(num_runs_);
  state.set_step(progress.step);
  state.set_instruction(progress.instruction);
  if (progress.instruction < static_cast<uint64_t>(instructions.size())) {
    state.set_action(ActionText(instructions.Get(static_cast<int>(progress.instruction)).action()));
  }
  state.set_waiting(progress.waiting);
  state.set_channel(progress.waiting ? progress.channel : 0);
  state.set_usual_seconds(progress.usual_seconds);
  return state;
}

std::string WorkerEpoch::LastAction(const v1::RunStep& order) const {
  const Executor* executor = (order.evaluation() ? evaluation_ : training_).get();
  const v1::StageProgram& ran = order.evaluation() ? evaluation_program() : program();
  if (executor == nullptr || ran.instructions().empty()) return "";
  return ActionText(ran.instructions(static_cast<int>(executor->progress().instruction)).action());
}

void WorkerEpoch::Abort(const absl::Status& reason) {
  {
    MutexLock lock(mutex_);
    if (aborted_.ok()) aborted_ = reason;
    for (Executor* executor : abortable_) executor->Abort();
  }
  transport_->Abort(reason);
}

}  // namespace stagecoach
