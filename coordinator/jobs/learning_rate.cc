#include "coordinator/jobs/learning_rate.h"

#include <cmath>
#include <numbers>

namespace stagecoach {

double LearningRateOfStep(const v1::LearningRateSpec& schedule, double lr, uint64_t step) {
  if (step <= schedule.warmup_steps()) {
    return lr * (static_cast<double>(step) / static_cast<double>(schedule.warmup_steps()));
  }
  if (schedule.name() == "constant") return lr;
  if (step >= schedule.decay_steps()) return schedule.min_lr();
  // Here warmup_steps < step < decay_steps, so the divisor is not zero.
  const double progress = static_cast<double>(step - schedule.warmup_steps()) /
                          static_cast<double>(schedule.decay_steps() - schedule.warmup_steps());
  const double share = schedule.name() == "cosine" ? 0.5 * (1 + std::cos(std::numbers::pi * progress)) : 1 - progress;
  return schedule.min_lr() + (lr - schedule.min_lr()) * share;
}

}  // namespace stagecoach
