#ifndef STAGECOACH_WORKER_AGENT_FENCE_FILTER_H_
#define STAGECOACH_WORKER_AGENT_FENCE_FILTER_H_

#include <cstdint>
#include <deque>
#include <utility>

#include "common/ids.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

// The fencing law at a worker: which messages are older than what it knows. Agent's thread only.
class FenceFilter {
 public:
  explicit FenceFilter(Incarnation incarnation) : incarnation_(incarnation) {}

  // Why the message is to be dropped, in words; null: it is not. A newer coordinator's term is adopted.
  const char* ReasonToDrop(const v1::Fence& fence);
  // The worker's epoch of `job` from now on: what carries a smaller one is dropped.
  void Adopt(const JobId& job, Epoch epoch);
  // An epoch of a job that is not the worker's own has ended, or was refused.
  void NoteEnd(const JobId& job, Epoch epoch);

  const JobId& job() const { return job_; }
  Epoch epoch() const { return epoch_; }
  // Of what the worker says about `job`.
  v1::Fence FenceOf(const JobId& job, Epoch epoch) const;

 private:
  const Incarnation incarnation_;
  CoordinatorTerm term_;
  JobId job_;  // the last one; known until another comes
  Epoch epoch_;
  // Of other jobs, the newest last: what was under way of them may still come.
  std::deque<std::pair<JobId, Epoch>> past_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_AGENT_FENCE_FILTER_H_
