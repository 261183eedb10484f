// The passes that add communication: channels, receives, sends.

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "coordinator/program/lowering_passes.h"

namespace stagecoach {
namespace {

v1::ChannelSpec MakeChannel(const LoweringContext& context, v1::ChannelKind kind, uint32_t from, uint32_t to) {
  v1::ChannelSpec channel;
  channel.set_kind(kind);
  channel.set_from_stage(from);
  channel.set_to_stage(to);
  channel.set_from_worker_rank(context.WorkerOf(from));
  channel.set_to_worker_rank(context.WorkerOf(to));
  return channel;
}

// The tensor that crosses the cut after `lower` goes down as an activation and comes back as its gradient.
absl::StatusOr<v1::ChannelSpec> MakeBoundaryChannel(const LoweringContext& context, v1::ChannelKind kind,
                                                    uint32_t lower) {
  const bool down = kind == v1::CHANNEL_KIND_ACTIVATION;
  v1::ChannelSpec channel = MakeChannel(context, kind, down ? lower : lower + 1, down ? lower + 1 : lower);
  const uint32_t layer = context.StageAt(lower).last_layer();
  const uint64_t bytes = context.graph.layers(static_cast<int>(layer)).cost().output_bytes();
  const uint64_t samples = context.graph.micro_batch_size();
  if (samples == 0 || bytes == 0 || bytes % samples != 0) {
    return absl::InvalidArgumentError(absl::StrCat("the output of layer ", layer, " has ", bytes,
                                                   " bytes, which is not a multiple of ", samples, " samples"));
  }
  channel.set_num_slots(context.options.credit_window);
  channel.set_bytes(bytes);
  channel.set_bytes_per_sample(bytes / samples);
  return channel;
}

absl::StatusOr<std::vector<v1::ChannelSpec>> ChannelsOfPipeline(const LoweringContext& context) {
  std::vector<v1::ChannelSpec> channels;
  for (const v1::ChannelKind kind : {v1::CHANNEL_KIND_ACTIVATION, v1::CHANNEL_KIND_GRADIENT}) {
    if (context.forward_only && kind == v1::CHANNEL_KIND_GRADIENT) continue;
    for (uint32_t lower = 0; lower + 1 < context.num_stages(); ++lower) {
      STAGECOACH_ASSIGN_OR_RETURN(v1::ChannelSpec channel, MakeBoundaryChannel(context, kind, lower));
      channels.push_back(std::move(channel));
    }
  }
  if (context.forward_only || !context.tie.has_value()) return channels;
  const uint32_t lower = context.StageOfLayer(context.tie->owner_layer);
  const uint32_t upper = context.StageOfLayer(context.tie->later_layer);
  if (lower == upper) return channels;
  for (const auto& [from, to] : {std::pair(lower, upper), std::pair(upper, lower)}) {
    v1::ChannelSpec channel = MakeChannel(context, v1::CHANNEL_KIND_TIE, from, to);
    channel.set_num_slots(1);
    channel.set_bytes(context.tie->bytes);
    channels.push_back(std::move(channel));
  }
  return channels;
}

// Kind of the transfer that an F or I waits for or makes, and the action kinds of its two posts.
struct TransferKind {
  v1::ChannelKind channel;
  v1::ActionKind send;
  v1::ActionKind recv;
};
TransferKind KindOfTransfer(v1::ActionKind compute) {
  if (compute == v1::ACTION_KIND_FORWARD) {
    return {v1::CHANNEL_KIND_ACTIVATION, v1::ACTION_KIND_SEND_FORWARD, v1::ACTION_KIND_RECV_FORWARD};
  }
  return {v1::CHANNEL_KIND_GRADIENT, v1::ACTION_KIND_SEND_BACKWARD, v1::ACTION_KIND_RECV_BACKWARD};
}
bool IsForwardOrInput(const v1::Action& action) {
  return action.kind() == v1::ACTION_KIND_FORWARD || action.kind() == v1::ACTION_KIND_BACKWARD_INPUT;
}

// The receives of one worker, as its instructions consume them.
class ReceivePlacement {
 public:
  ReceivePlacement(const LoweringContext& context, const Programs& programs, v1::StageProgram& program)
      : context_(context), program_(program) {
    for (int channel = 0; channel < program.channels_size(); ++channel) {
      const v1::ChannelSpec& spec = program.channels(channel);
      if (spec.to_worker_rank() != program.worker_rank() || spec.kind() == v1::CHANNEL_KIND_TIE) continue;
      incoming_[static_cast<uint32_t>(channel)].order = SendOrder(programs[spec.from_worker_rank()], spec);
    }
  }

  absl::Status Place() {
    google::protobuf::RepeatedPtrField<v1::Instruction> before;
    before.Swap(program_.mutable_instructions());
    for (const auto& [channel, incoming] : incoming_) {
      for (size_t n = 0; n < std::min<size_t>(context_.options.credit_window, incoming.order.size()); ++n) {
        AddReceive(channel, n);
      }
    }
    for (v1::Instruction& instruction : before) STAGECOACH_RETURN_IF_ERROR(PlaceAfter(instruction));
    return absl::OkStatus();
  }

 private:
  struct Incoming {
    std::vector<uint32_t> order;  // micro-batches, as the sender sends them
    size_t num_consumed = 0;
  };

  static std::vector<uint32_t> SendOrder(const v1::StageProgram& sender, const v1::ChannelSpec& channel) {
    std::vector<uint32_t> order;
    for (const v1::Instruction& instruction : sender.instructions()) {
      const v1::Action& action = instruction.action();
      if (action.stage() != channel.from_stage() || !IsForwardOrInput(action)) continue;
      if (KindOfTransfer(action.kind()).channel == channel.kind()) order.push_back(action.micro_batch());
    }
    return order;
  }

  bool Consumes(const v1::Action& action) const {
    return (action.kind() == v1::ACTION_KIND_FORWARD && action.stage() > 0) ||
           (action.kind() == v1::ACTION_KIND_BACKWARD_INPUT && !context_.IsLast(action.stage()));
  }

  absl::Status PlaceAfter(v1::Instruction& instruction) {
    const v1::Action& action = instruction.action();
    if (!Consumes(action)) {
      *program_.add_instructions() = instruction;
      return absl::OkStatus();
    }
    const bool is_forward = action.kind() == v1::ACTION_KIND_FORWARD;
    const uint32_t from = is_forward ? action.stage() - 1 : action.stage() + 1;
    const uint32_t channel = ChannelIndex(program_, KindOfTransfer(action.kind()).channel, from);
    Incoming& incoming = incoming_[channel];
    const size_t n = incoming.num_consumed++;
    if (n >= incoming.order.size() || incoming.order[n] != action.micro_batch()) {
      return absl::InvalidArgumentError(
          absl::StrCat(ActionText(action), " takes transfer ", n, " of its channel, but stage ", from,
                       " does not send that micro-batch as number ", n, "; a channel is first in, first out"));
    }
    instruction.set_recv_channel(channel);
    instruction.set_recv_slot(static_cast<int32_t>(n % context_.options.credit_window));
    *program_.add_instructions() = instruction;
    const size_t next = n + context_.options.credit_window;
    if (next < incoming.order.size()) AddReceive(channel, next);
    return absl::OkStatus();
  }

  void AddReceive(uint32_t channel, size_t n) {
    const v1::ChannelSpec& spec = program_.channels(static_cast<int>(channel));
    const v1::ActionKind kind =
        spec.kind() == v1::CHANNEL_KIND_ACTIVATION ? v1::ACTION_KIND_RECV_FORWARD : v1::ACTION_KIND_RECV_BACKWARD;
    v1::Instruction recv = MakeInstruction(kind, spec.to_stage(), incoming_[channel].order[n]);
    recv.set_channel(channel);
    recv.set_sequence(n);
    recv.set_recv_slot(static_cast<int32_t>(n % context_.options.credit_window));
    *program_.add_instructions() = recv;
  }

  const LoweringContext& context_;
  v1::StageProgram& program_;
  std::map<uint32_t, Incoming> incoming_;  // by channel index
};

}  // namespace

absl::Status PlaceChannels(const LoweringContext& context, Programs& programs) {
  STAGECOACH_ASSIGN_OR_RETURN(const std::vector<v1::ChannelSpec> channels, ChannelsOfPipeline(context));
  for (const v1::ChannelSpec& channel : channels) {
    if (channel.from_worker_rank() == channel.to_worker_rank()) {
      return absl::InvalidArgumentError(absl::StrCat("stages ", channel.from_stage(), " and ", channel.to_stage(),
                                                     " exchange tensors and are both on worker ",
                                                     channel.to_worker_rank(), "; place them on different workers"));
    }
    *programs[channel.from_worker_rank()].add_channels() = channel;
    *programs[channel.to_worker_rank()].add_channels() = channel;
  }
  return absl::OkStatus();
}

absl::Status PlaceReceives(const LoweringContext& context, Programs& programs) {
  // From copies: a worker's receives depend on the order of its peers' compute actions alone.
  const Programs compute = programs;
  for (v1::StageProgram& program : programs) {
    STAGECOACH_RETURN_IF_ERROR(ReceivePlacement(context, compute, program).Place());
  }
  return absl::OkStatus();
}

void PlaceSends(const LoweringContext& context, Programs& programs) {
  for (v1::StageProgram& program : programs) {
    std::vector<uint64_t> next_sequence(static_cast<size_t>(program.channels_size()));
    RewriteInstructions(program, [&](v1::Instruction& instruction, const Emit& emit) {
      const v1::Action& action = instruction.action();
      const bool sends = (action.kind() == v1::ACTION_KIND_FORWARD && !context.IsLast(action.stage())) ||
                         (action.kind() == v1::ACTION_KIND_BACKWARD_INPUT && action.stage() > 0);
      if (!sends) return emit(instruction);
      const TransferKind kind = KindOfTransfer(action.kind());
      const uint32_t channel = ChannelIndex(program, kind.channel, action.stage());
      const uint64_t sequence = next_sequence[channel]++;
      v1::Instruction send = MakeInstruction(kind.send, action.stage(), action.micro_batch());
      send.set_channel(channel);
      send.set_sequence(sequence);
      send.set_send_slot(static_cast<int32_t>(sequence % context.options.credit_window));
      instruction.set_send_channel(channel);
      instruction.set_send_slot(send.send_slot());
      emit(instruction);
      emit(send);
    });
  }
}

}  // namespace stagecoach
