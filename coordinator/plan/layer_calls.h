#ifndef STAGECOACH_COORDINATOR_PLAN_LAYER_CALLS_H_
#define STAGECOACH_COORDINATOR_PLAN_LAYER_CALLS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "coordinator/plan/layer_costs.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

// What a worker can be asked to measure, and as what the answer is remembered.
struct ShapedCall {
  std::string shape;
  v1::LayerCall call;
};

// Whether the job's plans are made with measured times.
bool WantsMeasuredCosts(const v1::JobSpec& spec);

// Of a resolved specification, each shape once, blocks first and then what takes least: what plans of it on so many
// workers would be better for and `known` (null: nothing) does not have. Without a micro-batch size those of a few
// sizes, the small ones first. Empty when it wants none, or is no model.
std::vector<ShapedCall> UnknownCalls(const v1::JobSpec& spec, size_t num_workers, const LayerCosts* known);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PLAN_LAYER_CALLS_H_
