#include "tests/bench/product_replay.h"

#include <algorithm>
#include <cstdint>

#include "common/status_macros.h"

namespace stagecoach {

void ProductReplay::Add(const Matmul& product) { products_.push_back(product); }

double ProductReplay::operations() const {
  double sum = 0;
  for (const Matmul& product : products_) {
    sum += 2.0 * static_cast<double>(product.c.num_elements()) *
           static_cast<double>(product.a.dims[product.transpose_a ? 0 : 1]);
  }
  return sum;
}

absl::Status ProductReplay::Prepare() {
  STAGECOACH_ASSIGN_OR_RETURN(stream_, device_.CreateStream());
  STAGECOACH_RETURN_IF_ERROR(MakeOperand(&Matmul::a, a_));
  STAGECOACH_RETURN_IF_ERROR(MakeOperand(&Matmul::b, b_));
  STAGECOACH_RETURN_IF_ERROR(MakeOperand(&Matmul::c, c_));
  STAGECOACH_RETURN_IF_ERROR(MakeOperand(&Matmul::bias, bias_));
  return Multiply();
}

// One buffer for the largest, of numbers in [-0.5, 0.5).
absl::Status ProductReplay::MakeOperand(Tensor Matmul::*operand, std::unique_ptr<Memory>& memory) {
  size_t bytes = 0;
  for (const Matmul& product : products_) {
    if (!(product.*operand).empty()) bytes = std::max(bytes, (product.*operand).bytes());
  }
  STAGECOACH_ASSIGN_OR_RETURN(memory, device_.Allocate(bytes, MemoryKind::kDevice));
  auto* values = reinterpret_cast<float*>(memory->data());
  uint32_t state = 1;
  for (size_t i = 0; i < bytes / sizeof(float); ++i) {
    state = state * 1664525u + 1013904223u;
    values[i] = static_cast<float>(state >> 8) * 0x1p-24f - 0.5f;
  }
  return absl::OkStatus();
}

absl::Status ProductReplay::Multiply() {
  MatmulOperations& matmul = device_.operations().matmul();
  for (Matmul product : products_) {
    product.a.data = a_->data();
    product.b.data = b_->data();
    product.c.data = c_->data();
    if (!product.bias.empty()) product.bias.data = bias_->data();
    STAGECOACH_RETURN_IF_ERROR(matmul.EnqueueMatmul(*stream_, product));
  }
  return absl::OkStatus();
}

}  // namespace stagecoach
