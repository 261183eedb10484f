#include "worker/device/reference/reference_update_operations.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/status_macros.h"
#include "formats/tensor_digest.h"
#include "worker/device/operation_checks.h"

namespace stagecoach {

absl::Status ReferenceUpdateOperations::EnqueueAdamW(Stream& stream, const Tensor& parameter, const Tensor& gradient,
                                                     const Tensor& exp_avg, const Tensor& exp_avg_sq,
                                                     const AdamW& update) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckAdamW(parameter, gradient, exp_avg, exp_avg_sq, v1::DTYPE_F64));
  for (int64_t i = 0; i < parameter.num_elements(); ++i) {
    double& p = parameter.as<double>()[i];
    double& m = exp_avg.as<double>()[i];
    double& v = exp_avg_sq.as<double>()[i];
    const double g = update.gradient_factor * gradient.as<double>()[i];
    m = update.beta1 * m + (1 - update.beta1) * g;
    v = update.beta2 * v + (1 - update.beta2) * g * g;
    p *= 1 - update.learning_rate * update.weight_decay;
    const double corrected_m = m / update.bias_correction1;
    const double corrected_v = v / update.bias_correction2;
    p -= update.learning_rate * corrected_m / (std::sqrt(corrected_v) + update.epsilon);
  }
  return absl::OkStatus();
}

absl::Status ReferenceUpdateOperations::EnqueueSgd(Stream& stream, const Tensor& parameter, const Tensor& gradient,
                                                   const Tensor& momentum, const Sgd& update) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckSgd(parameter, gradient, momentum, v1::DTYPE_F64));
  for (int64_t i = 0; i < parameter.num_elements(); ++i) {
    double& p = parameter.as<double>()[i];
    const double g = update.gradient_factor * gradient.as<double>()[i] + update.weight_decay * p;
    double direction = g;
    if (!momentum.empty()) {
      double& m = momentum.as<double>()[i];
      m = update.first_update ? g : update.momentum * m + g;
      direction = update.nesterov ? g + update.momentum * m : m;
    }
    p -= update.learning_rate * direction;
  }
  return absl::OkStatus();
}

absl::Status ReferenceUpdateOperations::EnqueueSquaredNorm(Stream& stream, const Tensor& t, const Tensor& squared_norm,
                                                           const Tensor& num_non_finite) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckSquaredNorm(t, squared_norm, num_non_finite, v1::DTYPE_F64));
  double sum = 0;
  int64_t count = 0;
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const double x = t.as<double>()[i];
    sum += x * x;
    if (!std::isfinite(x)) ++count;
  }
  *squared_norm.as<double>() = sum;
  *num_non_finite.as<int64_t>() = count;
  return absl::OkStatus();
}

absl::Status ReferenceUpdateOperations::EnqueueDigest(Stream& stream, const Tensor& t, const Tensor& digest) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckDigest(t, digest));
  uint64_t sums[2] = {0, 0};
  for (size_t first = 0; first < t.bytes(); first += sizeof(uint32_t)) {
    uint32_t word = 0;
    std::memcpy(&word, t.as<char>() + first, std::min(sizeof(word), t.bytes() - first));
    for (size_t which = 0; which < 2; ++which) sums[which] += DigestWord(first / sizeof(word), word, which);
  }
  std::memcpy(digest.data, sums, sizeof(sums));
  return absl::OkStatus();
}

}  // namespace stagecoach
