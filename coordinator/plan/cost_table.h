#ifndef STAGECOACH_COORDINATOR_PLAN_COST_TABLE_H_
#define STAGECOACH_COORDINATOR_PLAN_COST_TABLE_H_

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "coordinator/plan/layer_costs.h"
#include "stagecoach/v1/journal.pb.h"

namespace stagecoach {

// Workers on which calls take the same time.
struct WorkerKind {
  std::string numerics_class;
  std::string device;
  uint32_t threads = 0;
  auto operator<=>(const WorkerKind&) const = default;
};

// All costs that were ever measured: what the journal's CostsMeasured say, in their order. Thread-compatible; what Of
// returns does not change any more.
class CostTable {
 public:
  void Apply(const v1::CostsMeasured& measured);
  // Null: nothing was measured on such workers.
  std::shared_ptr<const LayerCosts> Of(const WorkerKind& kind) const;
  const std::map<WorkerKind, std::shared_ptr<const LayerCosts>>& by_kind() const { return by_kind_; }

 private:
  std::map<WorkerKind, std::shared_ptr<const LayerCosts>> by_kind_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PLAN_COST_TABLE_H_
