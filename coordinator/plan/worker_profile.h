#ifndef STAGECOACH_COORDINATOR_PLAN_WORKER_PROFILE_H_
#define STAGECOACH_COORDINATOR_PLAN_WORKER_PROFILE_H_

#include <cstdint>
#include <memory>

#include "coordinator/plan/layer_costs.h"

namespace stagecoach {

// What a plan reckons a worker to do with the job's threads. The figures are those of one core of a present server
// processor; they order plans, and predict a step to within a small factor. Times of layers that were measured take the
// place of those that follow from FLOPs.
struct WorkerProfile {
  double flops_per_second = 5e10;
  uint64_t memory_bytes = 0;  // 0: no limit
  // Of a pass through one layer, whatever its size: what makes very small micro-batches slow.
  double seconds_per_call = 2e-5;
  // Parameters, gradients and moments through the optimizer's update.
  double update_bytes_per_second = 5e9;
  // Of a tensor from one worker to another.
  double hop_seconds = 5e-5;
  double hop_bytes_per_second = 2e9;
  std::shared_ptr<const LayerCosts> measured = nullptr;  // null: nothing
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PLAN_WORKER_PROFILE_H_
