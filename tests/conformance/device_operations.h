#ifndef STAGECOACH_TESTS_CONFORMANCE_DEVICE_OPERATIONS_H_
#define STAGECOACH_TESTS_CONFORMANCE_DEVICE_OPERATIONS_H_

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/conformance/test_device.h"
#include "worker/device/tensor_operations.h"

namespace stagecoach {

struct ModelShape {
  int64_t samples, seq, heads, head_size, vocab;

  int64_t rows() const { return samples * seq; }
  int64_t hidden() const { return heads * head_size; }
};
std::ostream& operator<<(std::ostream& out, const ModelShape& shape);

// How much of an operand an operation may find other than it is and still accept it.
enum class Freedom { kNone, kRows, kColumns, kShape, kDTypeAndShape };

struct Operand {
  Tensor tensor;
  bool output = false;
  Freedom freedom = Freedom::kNone;
  bool optional = false;  // may be no tensor
  // Of an output: a bound of the sum of the absolute values of the terms that are added up in one element.
  double reach = 0;
};

// One call, with operands that are a function of the shape alone.
struct Operation {
  std::string name;
  // |result - float64 result| <= tolerance * (|float64 result| + reach)
  double tolerance;
  bool same_bits_on_any_threads;
  std::vector<Operand> operands;
  std::function<absl::Status(TensorOperations&, Stream&, const std::vector<Operand>&)> enqueue;

  absl::Status Enqueue(TestDevice& device) const { return enqueue(device.operations(), device.stream(), operands); }
};

// Every operation of tensor_operations.h, in its variants, at `shape`. The tensors are `device`'s.
std::vector<Operation> EveryOperation(TestDevice& device, const ModelShape& shape);

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_CONFORMANCE_DEVICE_OPERATIONS_H_
