#include "worker/device/reference/reference_elementwise_operations.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/status_macros.h"
#include "worker/device/normal_noise.h"
#include "worker/device/operation_checks.h"
#include "worker/device/reference/dropout_mask.h"

namespace stagecoach {
namespace {

constexpr double kCubic = 0.044715;
const double kInner = std::sqrt(2 / std::numbers::pi);

double Gelu(double x) { return 0.5 * x * (1 + std::tanh(kInner * (x + kCubic * x * x * x))); }

double GeluDerivative(double x) {
  const double tanh = std::tanh(kInner * (x + kCubic * x * x * x));
  return 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * kInner * (1 + 3 * kCubic * x * x);
}

}  // namespace

absl::Status ReferenceElementwiseOperations::EnqueueGelu(Stream& stream, const Tensor& x, const Tensor& y) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckSameMatrix("gelu", x, y, v1::DTYPE_F64));
  for (int64_t i = 0; i < x.num_elements(); ++i) y.as<double>()[i] = Gelu(x.as<double>()[i]);
  return absl::OkStatus();
}

absl::Status ReferenceElementwiseOperations::EnqueueGeluGradient(Stream& stream, const Tensor& x, const Tensor& dy,
                                                                 const Tensor& dx) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckSameMatrix("gelu gradient", x, dy, dx, v1::DTYPE_F64));
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    dx.as<double>()[i] = dy.as<double>()[i] * GeluDerivative(x.as<double>()[i]);
  }
  return absl::OkStatus();
}

absl::Status ReferenceElementwiseOperations::EnqueueAdd(Stream& stream, const Tensor& a, const Tensor& b,
                                                        const Tensor& sum) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckSameMatrix("add", a, b, sum, v1::DTYPE_F64));
  for (int64_t i = 0; i < a.num_elements(); ++i) sum.as<double>()[i] = a.as<double>()[i] + b.as<double>()[i];
  return absl::OkStatus();
}

absl::Status ReferenceElementwiseOperations::EnqueueDropoutAdd(Stream& stream, const Tensor& x, const Dropout& dropout,
                                                               const Tensor& residual, const Tensor& y) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckDropoutAdd(x, dropout, residual, y, v1::DTYPE_F64));
  const int64_t samples = x.dims[0];
  const int64_t size = samples == 0 ? 0 : x.num_elements() / samples;
  for (int64_t sample = 0; sample < samples; ++sample) {
    for (int64_t element = 0; element < size; ++element) {
      const int64_t i = sample * size + element;
      const double factor = DropoutFactor(dropout, sample, element);
      const double value = factor == 0 ? 0 : x.as<double>()[i] * factor;
      y.as<double>()[i] = residual.empty() ? value : value + residual.as<double>()[i];
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceElementwiseOperations::EnqueueFill(Stream& stream, const Tensor& t, double value) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckTensor("fill", "the tensor", t, v1::DTYPE_F64));
  std::fill_n(t.as<double>(), t.num_elements(), value);
  return absl::OkStatus();
}

absl::Status ReferenceElementwiseOperations::EnqueueNormal(Stream& stream, const Tensor& t, double standard_deviation,
                                                           uint64_t seed) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckTensor("normal noise", "the tensor", t, v1::DTYPE_F64));
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const uint64_t element = static_cast<uint64_t>(i);
    t.as<double>()[i] = standard_deviation * NormalPair(seed, element / 2)[element % 2];
  }
  return absl::OkStatus();
}

}  // namespace stagecoach
