#include "coordinator/plan/cost_table.h"

#include <utility>

namespace stagecoach {

void CostTable::Apply(const v1::CostsMeasured& measured) {
  std::shared_ptr<const LayerCosts>& costs =
      by_kind_[{measured.numerics_class(), measured.device(), measured.threads()}];
  LayerCosts more = costs == nullptr ? LayerCosts() : *costs;
  for (const v1::MeasuredLayer& layer : measured.layers()) {
    more.Add(layer.shape(), layer.micro_batch_size(),
             {.forward = layer.seconds().forward(),
              .backward_input = layer.seconds().backward_input(),
              .backward_weight = layer.seconds().backward_weight()});
  }
  costs = std::make_shared<const LayerCosts>(std::move(more));
}

std::shared_ptr<const LayerCosts> CostTable::Of(const WorkerKind& kind) const {
  const auto found = by_kind_.find(kind);
  return found == by_kind_.end() ? nullptr : found->second;
}

}  // namespace stagecoach
