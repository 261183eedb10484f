#include "worker/device/reference/reference_norm_operations.h"

#include <cmath>

#include "common/status_macros.h"
#include "worker/device/operation_checks.h"

namespace stagecoach {

absl::Status ReferenceNormOperations::EnqueueForward(Stream& stream, const Tensor& x, const Tensor& gamma,
                                                     const Tensor& beta, double epsilon, const Tensor& y,
                                                     const Tensor& mean_rstd) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(
      CheckNorm({.x = x, .y = y, .mean_rstd = mean_rstd, .gamma = &gamma, .beta = &beta}, v1::DTYPE_F64));
  STAGECOACH_RETURN_IF_ERROR(CheckNormEpsilon(epsilon));
  const int64_t columns = x.columns();
  const double size = static_cast<double>(columns);
  for (int64_t row = 0; row < x.rows(); ++row) {
    const double* in = x.as<double>() + row * columns;
    double* out = y.as<double>() + row * columns;
    double mean = 0;
    for (int64_t j = 0; j < columns; ++j) mean += in[j];
    mean /= size;
    double variance = 0;
    for (int64_t j = 0; j < columns; ++j) variance += (in[j] - mean) * (in[j] - mean);
    const double rstd = 1 / std::sqrt(variance / size + epsilon);
    for (int64_t j = 0; j < columns; ++j) {
      out[j] = (in[j] - mean) * rstd * gamma.as<double>()[j] + beta.as<double>()[j];
    }
    mean_rstd.as<double>()[2 * row] = mean;
    mean_rstd.as<double>()[2 * row + 1] = rstd;
  }
  return absl::OkStatus();
}

// With n = (x - mean) rstd and g = gamma dy: dx = rstd (g - mean(g) - n mean(g n)).
absl::Status ReferenceNormOperations::EnqueueBackwardInput(Stream& stream, const Tensor& x, const Tensor& mean_rstd,
                                                           const Tensor& gamma, const Tensor& dy, bool accumulate,
                                                           const Tensor& dx) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckNorm({.x = x, .y = dy, .mean_rstd = mean_rstd, .gamma = &gamma}, v1::DTYPE_F64));
  STAGECOACH_RETURN_IF_ERROR(CheckNorm({.x = x, .y = dx, .mean_rstd = mean_rstd}, v1::DTYPE_F64));
  const int64_t columns = x.columns();
  const double size = static_cast<double>(columns);
  for (int64_t row = 0; row < x.rows(); ++row) {
    const double* in = x.as<double>() + row * columns;
    const double* d_out = dy.as<double>() + row * columns;
    double* d_in = dx.as<double>() + row * columns;
    const double mean = mean_rstd.as<double>()[2 * row];
    const double rstd = mean_rstd.as<double>()[2 * row + 1];
    double mean_g = 0;
    double mean_gn = 0;
    for (int64_t j = 0; j < columns; ++j) {
      const double g = gamma.as<double>()[j] * d_out[j];
      mean_g += g / size;
      mean_gn += g * (in[j] - mean) * rstd / size;
    }
    for (int64_t j = 0; j < columns; ++j) {
      const double g = gamma.as<double>()[j] * d_out[j];
      const double gradient = rstd * (g - mean_g - (in[j] - mean) * rstd * mean_gn);
      d_in[j] = accumulate ? d_in[j] + gradient : gradient;
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceNormOperations::EnqueueBackwardWeight(Stream& stream, const Tensor& x, const Tensor& mean_rstd,
                                                            const Tensor& dy, const Tensor& d_gamma,
                                                            const Tensor& d_beta) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(
      CheckNorm({.x = x, .y = dy, .mean_rstd = mean_rstd, .d_gamma = &d_gamma, .d_beta = &d_beta}, v1::DTYPE_F64));
  const int64_t columns = x.columns();
  for (int64_t j = 0; j < columns; ++j) {
    double gamma_sum = 0;
    double beta_sum = 0;
    for (int64_t row = 0; row < x.rows(); ++row) {
      const double mean = mean_rstd.as<double>()[2 * row];
      const double rstd = mean_rstd.as<double>()[2 * row + 1];
      const double d_out = dy.as<double>()[row * columns + j];
      gamma_sum += d_out * (x.as<double>()[row * columns + j] - mean) * rstd;
      beta_sum += d_out;
    }
    d_gamma.as<double>()[j] += gamma_sum;
    d_beta.as<double>()[j] += beta_sum;
  }
  return absl::OkStatus();
}

}  // namespace stagecoach
