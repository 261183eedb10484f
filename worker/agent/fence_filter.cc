#include "worker/agent/fence_filter.h"

#include <algorithm>

namespace stagecoach {
namespace {

constexpr size_t kMaxPast = 64;

}  // namespace

const char* FenceFilter::ReasonToDrop(const v1::Fence& fence) {
  if (fence.incarnation() != incarnation_.value()) return "it is for another incarnation of this worker";
  if (fence.coordinator_term() < term_.value()) return "its coordinator's term has ended";
  term_ = CoordinatorTerm(fence.coordinator_term());
  if (fence.job() == job_.value() && fence.epoch() < epoch_.value()) return "its epoch has ended";
  for (const auto& [job, epoch] : past_) {
    if (fence.job() == job.value() && fence.epoch() <= epoch.value()) return "its job has ended here";
  }
  return nullptr;
}

void FenceFilter::Adopt(const JobId& job, Epoch epoch) {
  if (job == job_) {
    epoch_ = std::max(epoch, epoch_);
    return;
  }
  const auto past = std::find_if(past_.begin(), past_.end(), [&](const auto& one) { return one.first == job; });
  if (past != past_.end()) past_.erase(past);
  if (job_ != JobId()) NoteEnd(job_, epoch_);
  job_ = job;
  epoch_ = epoch;
}

void FenceFilter::NoteEnd(const JobId& job, Epoch epoch) {
  const auto past = std::find_if(past_.begin(), past_.end(), [&](const auto& one) { return one.first == job; });
  if (past != past_.end()) {
    past->second = std::max(past->second, epoch);
    return;
  }
  if (past_.size() == kMaxPast) past_.pop_front();
  past_.emplace_back(job, epoch);
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
