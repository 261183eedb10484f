#ifndef STAGECOACH_COORDINATOR_PLAN_LAYER_COSTS_H_
#define STAGECOACH_COORDINATOR_PLAN_LAYER_COSTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "stagecoach/v1/plan.pb.h"

namespace stagecoach {

// Seconds of a full micro-batch in one layer.
struct LayerSeconds {
  double forward = 0;
  double backward_input = 0;
  double backward_weight = 0;

  double total() const { return forward + backward_input + backward_weight; }
  bool operator==(const LayerSeconds&) const = default;
};

// What the times of a layer's calls depend on, but for the micro-batch size: kind, sizes, sequence length and which
// dropouts are on. Layers of equal shapes take equal times, whatever their names and values. Canonical, since journals
// keep it: "transformer_block hidden_size=64 ... seq_len=128 dropout=attn_pdrop,resid_pdrop".
std::string LayerShape(const v1::LayerSpec& layer, uint64_t seq_len);

// What calls of layers take on workers of one kind, with a given number of threads, as one of them has measured it.
class LayerCosts {
 public:
  // What is known stays as it is: whatever was planned with it can be planned again.
  void Add(const std::string& shape, uint64_t micro_batch_size, const LayerSeconds& seconds);
  // Null: not measured.
  const LayerSeconds* Find(const std::string& shape, uint64_t micro_batch_size) const;
  // What was measured, or else on the line through the sizes around, or next to, this one: a call takes a + b x
  // samples, closely enough to order sizes. Nothing: of the shape fewer than two sizes were measured.
  std::optional<LayerSeconds> Estimate(const std::string& shape, uint64_t micro_batch_size) const;

  using BySize = std::map<uint64_t, LayerSeconds>;
  const std::map<std::string, BySize>& by_shape() const { return by_shape_; }

 private:
  std::map<std::string, BySize> by_shape_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PLAN_LAYER_COSTS_H_
