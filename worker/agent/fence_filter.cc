#include "worker/agent/fence_filter.h"

#include <algorithm>

namespace stagecoach {

const char* FenceFilter::ReasonToDrop(const v1::Fence& fence) {
  if (fence.incarnation() != incarnation_.value()) return "it is for another incarnation of this worker";
  if (fence.coordinator_term() < term_.value()) return "its coordinator's term has ended";
  term_ = CoordinatorTerm(fence.coordinator_term());
  if (fence.job() == job_.value() && fence.epoch() < epoch_.value()) return "its epoch has ended";
  return nullptr;
}

void FenceFilter::Adopt(const JobId& job, Epoch epoch) {
  epoch_ = job == job_ ? std::max(epoch, epoch_) : epoch;
  job_ = job;
}

v1::Fence FenceFilter::FenceOf(const JobId& job, Epoch epoch) const {
  v1::Fence fence;
  fence.set_job(job.value());
  fence.set_epoch(epoch.value());
  fence.set_incarnation(incarnation_.value());
  fence.set_coordinator_term(term_.value());
  return fence;
}

}  // namespace stagecoach
