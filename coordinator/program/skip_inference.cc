#include "coordinator/program/skip_inference.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/skip_connections.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

constexpr uint32_t kLeastLength = 2;  // layers from the start of a connection to its end

// What a channel says of one of its connections.
struct Carried {
  uint32_t from_stage = 0;
  uint32_t to_stage = 0;
  uint64_t bytes = 0;
};

class SkipInference {
 public:
  explicit SkipInference(PlannedModel& model) : model_(model) {}

  absl::Status Add(const v1::ChannelSpec& channel) {
    for (const uint32_t connection : channel.skip_connections()) {
      if (connection >= static_cast<uint32_t>(model_.graph.layers_size())) {
        return absl::InvalidArgumentError(
            absl::StrCat("skip connection ", connection, ": the stages have ", model_.graph.layers_size(), " layers"));
      }
      // Both ends say the same, as the verifier sees to.
      carried_.try_emplace(connection,
                           Carried{channel.from_stage(), channel.to_stage(),
                                   channel.bytes() / static_cast<uint64_t>(channel.skip_connections_size())});
    }
    return absl::OkStatus();
  }

  absl::Status Run() {
    if (carried_.empty()) return absl::OkStatus();
    for (uint32_t i = 0; i <= carried_.rbegin()->first; ++i) STAGECOACH_RETURN_IF_ERROR(AddStart(i));
    STAGECOACH_RETURN_IF_ERROR(AddEnds());
    for (const auto& [index, carried] : carried_) SetBytes(index, carried.bytes);
    for (const auto& [index, last_layer] : within_) {
      const v1::SkipConnection& connection = ConnectionAt(index);
      SetBytes(index, std::max(OutputBytes(connection.from_layer()), OutputBytes(connection.to_layer() - 1)));
    }
    const absl::Status status = CheckSkipConnections(model_.graph);
    if (status.ok()) return status;
    return absl::InvalidArgumentError(
        absl::StrCat("layers that the programs' skip connections may join: ", status.message()));
  }

 private:
  v1::SkipConnection& ConnectionAt(uint32_t index) {
    return *model_.graph.mutable_skip_connections(static_cast<int>(index));
  }
  const v1::StagePlan& StageAt(uint32_t stage) const { return model_.plan.stages(static_cast<int>(stage)); }

  // Of one that no channel carries, in the first stage that has room for its end, too.
  absl::Status AddStart(uint32_t index) {
    const auto found = carried_.find(index);
    const bool is_carried = found != carried_.end();
    for (int stage = 0; stage < model_.plan.stages_size(); ++stage) {
      if (is_carried && found->second.from_stage != static_cast<uint32_t>(stage)) continue;
      const uint32_t layer = std::max(next_start_, model_.plan.stages(stage).first_layer());
      const uint32_t last_layer = model_.plan.stages(stage).last_layer();
      if (layer + (is_carried ? 0 : kLeastLength) > last_layer) continue;
      model_.graph.add_skip_connections()->set_from_layer(layer);
      if (!is_carried) within_.emplace(index, last_layer);
      next_start_ = layer + 1;
      return absl::OkStatus();
    }
    return NoLayer(index);
  }

  absl::Status AddEnds() {
    std::map<uint32_t, std::vector<uint32_t>> ending_in_stage;
    for (const auto& [index, carried] : carried_) ending_in_stage[carried.to_stage].push_back(index);
    std::set<uint32_t> ends;
    for (const auto& [stage, indices] : ending_in_stage) {
      const v1::StagePlan& plan = StageAt(stage);
      for (size_t i = 0; i < indices.size(); ++i) {
        const size_t num_behind = indices.size() - 1 - i;
        if (num_behind > plan.last_layer() - plan.first_layer()) return NoLayer(indices[i]);
        const uint32_t layer = plan.last_layer() - static_cast<uint32_t>(num_behind);
        ConnectionAt(indices[i]).set_to_layer(layer);
        ends.insert(layer);
      }
    }
    for (const auto& [index, last_layer] : within_) {
      uint32_t layer = ConnectionAt(index).from_layer() + kLeastLength;
      while (ends.contains(layer)) ++layer;
      if (layer > last_layer) return NoLayer(index);
      ConnectionAt(index).set_to_layer(layer);
      ends.insert(layer);
    }
    return absl::OkStatus();
  }

  static absl::Status NoLayer(uint32_t index) {
    return absl::InvalidArgumentError(
        absl::StrCat("skip connection ", index, ": no layers are left in its stages that it may join"));
  }

  uint64_t OutputBytes(uint32_t layer) const {
    return model_.graph.layers(static_cast<int>(layer)).cost().output_bytes();
  }
  // Of the two tensors that it adds, unless something else has said.
  void SetBytes(uint32_t index, uint64_t bytes) {
    const v1::SkipConnection& connection = ConnectionAt(index);
    for (const uint32_t layer : {connection.from_layer(), std::max(connection.to_layer(), 1u) - 1}) {
      v1::LayerCost& cost = *model_.graph.mutable_layers(static_cast<int>(layer))->mutable_cost();
      if (cost.output_bytes() == 0) cost.set_output_bytes(bytes);
    }
  }

  PlannedModel& model_;
  std::map<uint32_t, Carried> carried_;  // by connection
  std::map<uint32_t, uint32_t> within_;  // by connection that no channel carries: the last layer of its stage
  uint32_t next_start_ = 0;
};

}  // namespace

absl::Status InferSkipConnections(std::span<const v1::StageProgram> programs, PlannedModel& model) {
  SkipInference inference(model);
  for (const v1::StageProgram& program : programs) {
    for (const v1::ChannelSpec& channel : program.channels()) {
      if (channel.kind() == v1::CHANNEL_KIND_SKIP) STAGECOACH_RETURN_IF_ERROR(inference.Add(channel));
    }
  }
  return inference.Run();
}

}  // namespace stagecoach
