#ifndef STAGECOACH_WORKER_MODEL_LINEAR_H_
#define STAGECOACH_WORKER_MODEL_LINEAR_H_

#include "absl/status/status.h"
#include "worker/device/tensor_operations.h"
#include "worker/model/layer.h"

namespace stagecoach {

// y = x weight + bias, in the three pieces that layers schedule apart. weight [in, out], as GPT-2's Conv1D has it. A
// view of two parameters. Executor's thread.
class Linear {
 public:
  Linear(const Parameter& weight, const Parameter& bias) : weight_(weight), bias_(bias) {}

  // x [rows, in] -> y [rows, out]
  absl::Status EnqueueForward(MatmulOperations& matmul, Stream& stream, const Tensor& x, const Tensor& y) const {
    return matmul.EnqueueMatmul(stream,
                                {.a = x.AsMatrix(), .b = weight_.value, .c = y.AsMatrix(), .bias = bias_.value});
  }
  // dy [rows, out] -> dx [rows, in]
  absl::Status EnqueueBackwardInput(MatmulOperations& matmul, Stream& stream, const Tensor& dy,
                                    const Tensor& dx) const {
    return matmul.EnqueueMatmul(stream,
                                {.a = dy.AsMatrix(), .b = weight_.value, .c = dx.AsMatrix(), .transpose_b = true});
  }
  // Adds to both accumulators.
  absl::Status EnqueueBackwardWeight(MatmulOperations& matmul, Stream& stream, const Tensor& x,
                                     const Tensor& dy) const {
    if (absl::Status status = matmul.EnqueueMatmul(
            stream,
            {.a = x.AsMatrix(), .b = dy.AsMatrix(), .c = weight_.gradient, .transpose_a = true, .accumulate = true});
        !status.ok()) {
      return status;
    }
    return matmul.EnqueueColumnSum(stream, dy.AsMatrix(), bias_.gradient);
  }

 private:
  const Parameter weight_;
  const Parameter bias_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_MODEL_LINEAR_H_
