#ifndef STAGECOACH_WORKER_DEVICE_UPDATE_STEPS_H_
#define STAGECOACH_WORKER_DEVICE_UPDATE_STEPS_H_

#include "worker/device/tensor_operations.h"

namespace stagecoach {

// The exact arithmetic of optimizer updates on devices that compute in f32, which all of them repeat bit for bit so
// that a shadow on a CPU follows a stage on a GPU. The constants below are computed in float64 and rounded once; then
// every element goes through these steps in f32, where each operation rounds once to nearest, fma(a, b, c) = a b + c
// has one rounding, and subnormal numbers are kept.

// AdamW, of parameter p, gradient x, moments m and v:
//   g = gradient_factor * x
//   m = fma(beta1, m, one_minus_beta1 * g)
//   v = fma(beta2, v, one_minus_beta2 * (g * g))
//   divisor = fma(sqrt(v), inverse_root_correction2, epsilon)
//   p = fma(minus_step_size, m / divisor, decay * p)
struct AdamWSteps {
  float gradient_factor;
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float inverse_root_correction2;  // 1 / sqrt(bias_correction2)
  float epsilon;
  float minus_step_size;  // -learning_rate / bias_correction1
  float decay;            // 1 - learning_rate * weight_decay
};
AdamWSteps StepsOf(const AdamW& update);

// SGD, of parameter p, gradient x, momentum m:
//   g = fma(weight_decay, p, gradient_factor * x)
//   m = g on the first update, else fma(momentum, m, g)       (with momentum)
//   direction = fma(momentum, m, g) if nesterov, else m       (g without momentum)
//   p = fma(minus_learning_rate, direction, p)
struct SgdSteps {
  float gradient_factor;
  float weight_decay;
  float momentum;
  float minus_learning_rate;
  bool nesterov;
  bool first_update;
};
SgdSteps StepsOf(const Sgd& update);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_UPDATE_STEPS_H_
