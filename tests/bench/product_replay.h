#ifndef STAGECOACH_TESTS_BENCH_PRODUCT_REPLAY_H_
#define STAGECOACH_TESTS_BENCH_PRODUCT_REPLAY_H_

#include <memory>
#include <vector>

#include "worker/device/device.h"
#include "worker/device/tensor_operations.h"

namespace stagecoach {

// The shapes of a sequence of matrix products, done again with operands of its own. Used by the device's thread.
class ProductReplay {
 public:
  // `device`, whose memory the host addresses, outlives this.
  explicit ProductReplay(Device& device) : device_(device) {}

  void Add(const Matmul& product);  // only the shape is kept
  void Clear() { products_.clear(); }
  double operations() const;  // floating-point operations of all
  // Makes operands for all shapes that were added, and multiplies once.
  absl::Status Prepare();
  absl::Status Multiply();  // all of them, in order

 private:
  absl::Status MakeOperand(Tensor Matmul::*operand, std::unique_ptr<Memory>& memory);

  Device& device_;
  std::vector<Matmul> products_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Memory> a_, b_, c_, bias_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_BENCH_PRODUCT_REPLAY_H_
