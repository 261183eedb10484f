#include "coordinator/program/skip_inference.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/memory_layout.h"
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

  // The scratch region of its worker, which tensors of connections within the stage lie in.
  void SetScratch(uint32_t stage, uint64_t bytes) { scratch_left_[stage] = bytes; }

  absl::Status Run() {
    if (carried_.empty()) return absl::OkStatus();
    for (uint32_t i = 0; i <= carried_.rbegin()->first; ++i) STAGECOACH_RETURN_IF_ERROR(AddConnection(i));
    for (const auto& [index, carried] : carried_) {
      SetBytes(ConnectionAt(index).from_layer(), carried.bytes);
      SetBytes(ConnectionAt(index).to_layer() - 1, carried.bytes);
    }
    // The others make no other tensors, but for the last one.
    for (int layer = 0; layer + 1 < model_.graph.layers_size(); ++layer) {
      SetBytes(static_cast<uint32_t>(layer), TensorBytes());
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

  // One that no channel carries is in the first stage that has room for it.
  absl::Status AddConnection(uint32_t index) {
    const auto found = carried_.find(index);
    if (found != carried_.end()) {
      return Join(found->second.from_stage, found->second.to_stage) ? absl::OkStatus() : NoLayer(index);
    }
    for (uint32_t stage = 0; stage < static_cast<uint32_t>(model_.plan.stages_size()); ++stage) {
      const uint64_t bytes = AlignUp(TensorBytes());
      if (scratch_left_[stage] < bytes || !Join(stage, stage)) continue;
      scratch_left_[stage] -= bytes;
      return absl::OkStatus();
    }
    return NoLayer(index);
  }

  // The first layers of the stages that may still be its start and its end: later ones need later layers. False: there
  // are none.
  bool Join(uint32_t from_stage, uint32_t to_stage) {
    const uint32_t start = std::max(next_start_, StageAt(from_stage).first_layer());
    uint32_t end = std::max(start + kLeastLength, StageAt(to_stage).first_layer());
    while (ends_.contains(end)) ++end;
    if (start > StageAt(from_stage).last_layer() || end > StageAt(to_stage).last_layer()) return false;
    v1::SkipConnection& connection = *model_.graph.add_skip_connections();
    connection.set_from_layer(start);
    connection.set_to_layer(end);
    next_start_ = start + 1;
    ends_.insert(end);
    return true;
  }

  static absl::Status NoLayer(uint32_t index) {
    return absl::InvalidArgumentError(
        absl::StrCat("skip connection ", index, ": no layers are left in its stages that it may join"));
  }

  // Of a tensor that no channel tells the size of.
  uint64_t TensorBytes() const { return carried_.begin()->second.bytes; }

  // Of the layer's output, unless something else has said.
  void SetBytes(uint32_t layer, uint64_t bytes) {
    v1::LayerCost& cost = *model_.graph.mutable_layers(static_cast<int>(layer))->mutable_cost();
    if (cost.output_bytes() == 0) cost.set_output_bytes(bytes);
  }

  PlannedModel& model_;
  std::map<uint32_t, Carried> carried_;        // by connection
  std::set<uint32_t> ends_;                    // of all so far
  std::map<uint32_t, uint64_t> scratch_left_;  // by stage
  uint32_t next_start_ = 0;
};

}  // namespace

absl::Status InferSkipConnections(std::span<const v1::StageProgram> programs, PlannedModel& model) {
  SkipInference inference(model);
  for (const v1::StageProgram& program : programs) {
    for (const v1::StageSlots& stage : program.stages()) {
      inference.SetScratch(stage.stage(), program.scratch().bytes());
    }
    for (const v1::ChannelSpec& channel : program.channels()) {
      if (channel.kind() == v1::CHANNEL_KIND_SKIP) STAGECOACH_RETURN_IF_ERROR(inference.Add(channel));
    }
  }
  return inference.Run();
}

}  // namespace stagecoach
