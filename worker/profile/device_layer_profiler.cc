#include "worker/profile/device_layer_profiler.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "worker/profile/lone_layer.h"
#include "worker/profile/timed_rounds.h"

namespace stagecoach {
namespace {

// In a stage a layer finds in the caches what the layers beside it have left there. Copies stand for those: so many
// that together they are as large as a cache, and a few at most.
constexpr uint64_t kCacheBytes = 32 << 20;
constexpr uint64_t kMaxCopies = 8;

// Each does its call in turn: forwards, and backwards in reverse.
class LayerCopies {
 public:
  explicit LayerCopies(std::vector<std::unique_ptr<LoneLayer>> layers) : layers_(std::move(layers)) {}

  absl::Status Forward() {
    for (const auto& layer : layers_) STAGECOACH_RETURN_IF_ERROR(layer->Forward());
    return absl::OkStatus();
  }
  absl::Status BackwardInput() {
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
      STAGECOACH_RETURN_IF_ERROR((*layer)->BackwardInput());
    }
    return absl::OkStatus();
  }
  absl::Status BackwardWeight() {
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
      STAGECOACH_RETURN_IF_ERROR((*layer)->BackwardWeight());
    }
    return absl::OkStatus();
  }
  double count() const { return static_cast<double>(layers_.size()); }

 private:
  std::vector<std::unique_ptr<LoneLayer>> layers_;
};

absl::StatusOr<LayerCopies> MakeCopies(const ProfilerContext& context, const v1::LayerCall& call) {
  std::vector<std::unique_ptr<LoneLayer>> layers;
  uint64_t num_copies = 1;
  while (layers.size() < num_copies) {
    STAGECOACH_ASSIGN_OR_RETURN(std::unique_ptr<LoneLayer> layer,
                                LoneLayer::Create(context.device, call, context.memory_bytes));
    const uint64_t bytes = std::max<uint64_t>(layer->bytes(), 1);
    num_copies = std::clamp<uint64_t>(kCacheBytes / bytes, 1, kMaxCopies);
    if (context.memory_bytes != 0) num_copies = std::clamp<uint64_t>(context.memory_bytes / bytes, 1, num_copies);
    layers.push_back(std::move(layer));
  }
  return LayerCopies(std::move(layers));
}

}  // namespace

absl::StatusOr<v1::LayerSeconds> DeviceLayerProfiler::Measure(const v1::LayerCall& call, const MayGoOn& may_go_on) {
  STAGECOACH_RETURN_IF_ERROR(may_go_on());
  STAGECOACH_ASSIGN_OR_RETURN(LayerCopies layers, MakeCopies(context_, call));
  const TimedCalls calls = {.forward = [&] { return layers.Forward(); },
                            .backward_input = [&] { return layers.BackwardInput(); },
                            .backward_weight = [&] { return layers.BackwardWeight(); }};
  STAGECOACH_ASSIGN_OR_RETURN(v1::LayerSeconds seconds, MedianOfRounds(calls, context_.clock, may_go_on));
  seconds.set_forward(std::max(seconds.forward() / layers.count(), kShortestCallSeconds));
  seconds.set_backward_input(std::max(seconds.backward_input() / layers.count(), kShortestCallSeconds));
  seconds.set_backward_weight(std::max(seconds.backward_weight() / layers.count(), kShortestCallSeconds));
  return seconds;
}

}  // namespace stagecoach
