#include "worker/device/update_steps.h"

#include <cmath>

namespace stagecoach {

AdamWSteps StepsOf(const AdamW& update) {
  return {.gradient_factor = static_cast<float>(update.gradient_factor),
          .beta1 = static_cast<float>(update.beta1),
          .one_minus_beta1 = static_cast<float>(1 - update.beta1),
          .beta2 = static_cast<float>(update.beta2),
          .one_minus_beta2 = static_cast<float>(1 - update.beta2),
          .inverse_root_correction2 = static_cast<float>(1 / std::sqrt(update.bias_correction2)),
          .epsilon = static_cast<float>(update.epsilon),
          .minus_step_size = static_cast<float>(-update.learning_rate / update.bias_correction1),
          .decay = static_cast<float>(1 - update.learning_rate * update.weight_decay)};
}

SgdSteps StepsOf(const Sgd& update) {
  return {.gradient_factor = static_cast<float>(update.gradient_factor),
          .weight_decay = static_cast<float>(update.weight_decay),
          .momentum = static_cast<float>(update.momentum),
          .minus_learning_rate = static_cast<float>(-update.learning_rate),
          .nesterov = update.nesterov,
          .first_update = update.first_update};
}

}  // namespace stagecoach
