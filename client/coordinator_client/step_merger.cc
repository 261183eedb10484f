#include "client/coordinator_client/step_merger.h"

#include <algorithm>
#include <utility>

#include "client/coordinator_client/job_states.h"

namespace stagecoach {

std::optional<v1::StepEvent> StepMerger::Flush() { return std::exchange(held_, std::nullopt); }

void StepMerger::CountMissing(uint64_t step) {
  num_missing_ = step > newest_ ? std::min(announced_, step - newest_) : 0;
  announced_ = 0;
}

std::vector<v1::StepEvent> StepMerger::Add(const v1::JobEvent& event) {
  std::vector<v1::StepEvent> complete;
  announced_ += event.num_missing();
  num_missing_ = 0;
  const auto release = [&] {
    if (std::optional<v1::StepEvent> step = Flush()) complete.push_back(*std::move(step));
  };
  if (event.has_step() && event.step().step() > newest_) {
    release();
    CountMissing(event.step().step() - 1);
    newest_ = event.step().step();
    held_ = event.step();
    if (!held_->validation_follows()) release();
  } else if (event.has_validation() && held_ && held_->step() == event.validation().step()) {
    held_->set_validation_loss(event.validation().loss());
    release();
  } else if (event.has_step()) {
    announced_ = 0;  // seen before, and so were those before it
  } else if (event.has_status() && IsTerminal(event.status().state())) {
    CountMissing(event.status().step());
    release();
  }
  return complete;
}

}  // namespace stagecoach
