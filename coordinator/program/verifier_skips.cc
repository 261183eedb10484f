// What skip connections ask of a pipeline, and the names of its channels.

#include "common/skip_connections.h"
#include "common/status_macros.h"
#include "coordinator/program/verifier_checks.h"

namespace stagecoach {
namespace {

absl::Status AddConnection(const VerifierInput& input, uint32_t index, const ChannelKey& key, PipelineShape& shape) {
  const auto& [kind, from, to] = key;
  v1::ChannelSpec& channel = shape.skip_channels[key];
  const int layer = static_cast<int>(input.graph.skip_connections(static_cast<int>(index)).from_layer());
  const uint64_t bytes = input.graph.layers(layer).cost().output_bytes();
  const auto num_before = static_cast<uint64_t>(channel.skip_connections_size());
  if (channel.bytes() != num_before * bytes) {
    return Refuse("skip connection ", index, " has ", bytes, " bytes, and another of the ", ChannelName(key),
                  " has not");
  }
  const uint64_t samples = input.graph.micro_batch_size();
  if (samples == 0 || bytes % samples != 0) {
    return Refuse("the output of layer ", layer, " is not a whole number of bytes for each sample");
  }
  channel.set_kind(static_cast<v1::ChannelKind>(kind));
  channel.set_from_stage(from);
  channel.set_to_stage(to);
  channel.set_from_worker_rank(input.plan.stages(static_cast<int>(from)).worker_rank());
  channel.set_to_worker_rank(input.plan.stages(static_cast<int>(to)).worker_rank());
  channel.set_bytes((num_before + 1) * bytes);
  channel.set_bytes_per_sample(channel.bytes() / samples);
  channel.add_skip_connections(index);
  return absl::OkStatus();
}

}  // namespace

absl::Status AddSkipChannels(const VerifierInput& input, PipelineShape& shape) {
  for (int i = 0; i < input.graph.skip_connections_size(); ++i) {
    const v1::SkipConnection& connection = input.graph.skip_connections(i);
    const auto index = static_cast<uint32_t>(i);
    const uint32_t lower = StageOfLayer(input.plan, connection.from_layer());
    const uint32_t upper = StageOfLayer(input.plan, connection.to_layer());
    if (lower == upper) continue;
    STAGECOACH_RETURN_IF_ERROR(AddConnection(input, index, {v1::CHANNEL_KIND_SKIP, lower, upper}, shape));
    if (shape.forward_only || !HasGradient(input.graph, connection)) continue;
    STAGECOACH_RETURN_IF_ERROR(AddConnection(input, index, {v1::CHANNEL_KIND_SKIP_GRADIENT, upper, lower}, shape));
  }
  shape.forward_skips.resize(shape.num_stages);
  shape.backward_skips.resize(shape.num_stages);
  // Sorted by kind, sender and receiver, so that those of a stage ascend by the other end.
  for (const auto& [key, channel] : shape.skip_channels) {
    const bool is_forward = channel.kind() == v1::CHANNEL_KIND_SKIP;
    std::vector<SkipsOfAction>& skips = is_forward ? shape.forward_skips : shape.backward_skips;
    skips[channel.from_stage()].send.push_back(key);
    skips[channel.to_stage()].recv.push_back(key);
  }
  return absl::OkStatus();
}

std::string ChannelName(const ChannelKey& key) {
  const auto& [kind, from, to] = key;
  absl::string_view name = "unknown";
  if (kind == v1::CHANNEL_KIND_ACTIVATION) name = "activation";
  if (kind == v1::CHANNEL_KIND_GRADIENT) name = "gradient";
  if (kind == v1::CHANNEL_KIND_TIE) name = "tie";
  if (kind == v1::CHANNEL_KIND_SKIP) name = "skip";
  if (kind == v1::CHANNEL_KIND_SKIP_GRADIENT) name = "skip gradient";
  return absl::StrCat(name, " channel ", from, "->", to);
}

}  // namespace stagecoach
