#ifndef STAGECOACH_CLIENT_COORDINATOR_CLIENT_STEP_MERGER_H_
#define STAGECOACH_CLIENT_COORDINATOR_CLIENT_STEP_MERGER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "stagecoach/v1/coordinator.pb.h"

namespace stagecoach {

// Makes one StepEvent of a step and of the validation loss that follows it, each step once and in order. A step whose
// evaluation is under way is held back until its loss is known, or will not come: the next step, or the job's end.
// Pure.
class StepMerger {
 public:
  // The steps that are complete with `event`.
  std::vector<v1::StepEvent> Add(const v1::JobEvent& event);
  // How many steps before the newest of the last Add will not come, since the coordinator no longer has them. Events
  // announce what a coordinator lacks: of that the reader may have seen some, from the coordinator before it.
  uint64_t num_missing() const { return num_missing_; }
  // The step held back, as it is.
  std::optional<v1::StepEvent> Flush();

 private:
  std::optional<v1::StepEvent> held_;
  // Steps that come after the newest one, up to `step`, as far as they were announced as missing.
  void CountMissing(uint64_t step);

  uint64_t newest_ = 0;     // step that was held or returned
  uint64_t announced_ = 0;  // as missing, since the newest step
  uint64_t num_missing_ = 0;
};

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COORDINATOR_CLIENT_STEP_MERGER_H_
