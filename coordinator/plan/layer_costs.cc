#include "coordinator/plan/layer_costs.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace stagecoach {
namespace {

using Sample = std::pair<const uint64_t, LayerSeconds>;

// No time is less than nothing, however short the line's ends are.
double OnLine(uint64_t at, double x0, double y0, double x1, double y1) {
  return std::max(0.0, y0 + (static_cast<double>(at) - x0) * (y1 - y0) / (x1 - x0));
}

LayerSeconds OnLine(uint64_t at, const Sample& low, const Sample& high) {
  const auto x0 = static_cast<double>(low.first);
  const auto x1 = static_cast<double>(high.first);
  return {.forward = OnLine(at, x0, low.second.forward, x1, high.second.forward),
          .backward_input = OnLine(at, x0, low.second.backward_input, x1, high.second.backward_input),
          .backward_weight = OnLine(at, x0, low.second.backward_weight, x1, high.second.backward_weight)};
}

}  // namespace

std::string LayerShape(const v1::LayerSpec& layer, uint64_t seq_len) {
  const std::map<std::string, uint64_t> sizes(layer.sizes().begin(), layer.sizes().end());
  std::vector<std::string> dropouts;
  for (const auto& [name, value] : layer.scalars()) {
    if (absl::EndsWith(name, "_pdrop") && value > 0) dropouts.push_back(name);
  }
  std::sort(dropouts.begin(), dropouts.end());
  std::string text = absl::AsciiStrToLower(absl::StripPrefix(v1::LayerKind_Name(layer.kind()), "LAYER_KIND_"));
  for (const auto& [name, size] : sizes) absl::StrAppend(&text, " ", name, "=", size);
  absl::StrAppend(&text, " seq_len=", seq_len);
  if (!dropouts.empty()) absl::StrAppend(&text, " dropout=", absl::StrJoin(dropouts, ","));
  return text;
}

void LayerCosts::Add(const std::string& shape, uint64_t micro_batch_size, const LayerSeconds& seconds) {
  by_shape_[shape].emplace(micro_batch_size, seconds);
}

const LayerSeconds* LayerCosts::Find(const std::string& shape, uint64_t micro_batch_size) const {
  const auto sizes = by_shape_.find(shape);
  if (sizes == by_shape_.end()) return nullptr;
  const auto found = sizes->second.find(micro_batch_size);
  return found == sizes->second.end() ? nullptr : &found->second;
}

std::optional<LayerSeconds> LayerCosts::Estimate(const std::string& shape, uint64_t micro_batch_size) const {
  if (const LayerSeconds* known = Find(shape, micro_batch_size); known != nullptr) return *known;
  const auto sizes = by_shape_.find(shape);
  if (sizes == by_shape_.end() || sizes->second.size() < 2) return std::nullopt;
  // The two around it, or the two at the end that it is beyond.
  auto high = sizes->second.lower_bound(micro_batch_size);
  if (high == sizes->second.begin()) ++high;
  if (high == sizes->second.end()) --high;
  return OnLine(micro_batch_size, *std::prev(high), *high);
}

}  // namespace stagecoach
