#include "client/coordinator_client/step_merger.h"

#include <utility>

#include "client/coordinator_client/job_states.h"

namespace stagecoach {

std::optional<v1::StepEvent> StepMerger::Flush() { return std::exchange(held_, std::nullopt); }

std::vector<v1::StepEvent> StepMerger::Add(const v1::JobEvent& event) {
  std::vector<v1::StepEvent> complete;
  const auto release = [&] {
    if (std::optional<v1::StepEvent> step = Flush()) complete.push_back(*std::move(step));
  };
  if (event.has_step() && event.step().step() > newest_) {
    release();
    newest_ = event.step().step();
    held_ = event.step();
    if (!held_->validation_follows()) release();
  } else if (event.has_validation() && held_ && held_->step() == event.validation().step()) {
    held_->set_validation_loss(event.validation().loss());
    release();
  } else if (event.has_status() && IsTerminal(event.status().state())) {
    release();
  }
  return complete;
}

}  // namespace stagecoach
