#ifndef STAGECOACH_WORKER_CHECKPOINT_SHARD_SOURCE_H_
#define STAGECOACH_WORKER_CHECKPOINT_SHARD_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "formats/tensor_digest.h"
#include "stagecoach/v1/plan.pb.h"

namespace stagecoach {

struct ShardTensor {
  std::string name;
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  std::vector<uint64_t> shape = {};
  bool optimizer_state = false;
  std::span<const std::byte> bytes = {};  // host memory
};

// What a shard is written from: named tensors of one step, in host memory. They do not change while it is used; by one
// thread, which the implementation names, but for the bytes, which others may read too.
class ShardSource {
 public:
  virtual ~ShardSource() = default;
  virtual Step step() const = 0;
  virtual std::span<const ShardTensor> tensors() const = 0;  // in bytewise name order, each name once
  // Of tensors()[tensor], as the device computes it from its own memory; none: it has not. Errors of the device.
  virtual absl::StatusOr<std::optional<TensorDigest>> DeviceDigest(size_t tensor) = 0;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_CHECKPOINT_SHARD_SOURCE_H_
