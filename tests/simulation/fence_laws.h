#ifndef STAGECOACH_TESTS_SIMULATION_FENCE_LAWS_H_
#define STAGECOACH_TESTS_SIMULATION_FENCE_LAWS_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "stagecoach/v1/worker.pb.h"
#include "tests/simulation/world.h"

namespace stagecoach::simulation {

// The fencing law at the workers: told of every message that a worker acts on. One for each life of a worker.
class FenceLaws {
 public:
  FenceLaws(World& world, std::string worker, uint64_t incarnation)
      : world_(world), worker_(std::move(worker)), incarnation_(incarnation) {}

  void OnActedOn(const v1::Fence& fence, v1::CoordinatorMessage::MessageCase kind) {
    uint64_t& epoch = epochs_[fence.job()];
    if (fence.incarnation() != incarnation_ || fence.coordinator_term() < term_ || fence.epoch() < epoch) {
      world_.violations.Report("fencing law",
                               absl::StrCat("worker ", worker_, " of incarnation ", incarnation_, " has acted on {",
                                            fence.ShortDebugString(), "}, knowing term ", term_, " and epoch ", epoch));
    }
    term_ = std::max(term_, fence.coordinator_term());
    // Of the others, one that is newer than the worker's epoch is not followed.
    const bool moves_on = kind == v1::CoordinatorMessage::kAssignStages || kind == v1::CoordinatorMessage::kAbort ||
                          kind == v1::CoordinatorMessage::kRelease;
    if (moves_on) epoch = std::max(epoch, fence.epoch());
  }

 private:
  World& world_;
  const std::string worker_;
  const uint64_t incarnation_;
  uint64_t term_ = 0;
  std::map<std::string, uint64_t> epochs_;  // by job
};

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_FENCE_LAWS_H_
