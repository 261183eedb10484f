#ifndef STAGECOACH_WORKER_CHECKPOINT_SNAPSHOT_H_
#define STAGECOACH_WORKER_CHECKPOINT_SNAPSHOT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/checkpoint/owned_tensors.h"
#include "worker/checkpoint/shard_source.h"
#include "worker/device/device.h"
#include "worker/model/stage_state.h"

namespace stagecoach {

// A copy, in host memory, of what a worker's stages own at one step, for a checkpoint that is written while they go on.
// Allocates once, in Create: the bytes are the sum of StageMemory's snapshot. Taken by the executor's thread and read
// by another, never both at once: SnapshotWriter sees to it. All arguments outlive it.
class Snapshot final : public ShardSource {
 public:
  // Of these states; nothing is copied yet. RESOURCE_EXHAUSTED: no memory. INVALID_ARGUMENT: one tensor owned by two
  // stages.
  static absl::StatusOr<std::unique_ptr<Snapshot>> Create(Device& device, std::span<StageState* const> states);

  // Copies; complete at return. `digests` is what the device has computed of the state as it is, by name; may lack
  // tensors. FAILED_PRECONDITION: the stages are at different steps. Errors of the device. After an error it is of no
  // step.
  absl::Status Take(Stream& stream, std::map<std::string, TensorDigest> digests);

  uint64_t bytes() const { return memory_->bytes(); }

  Step step() const override { return step_; }  // 0: of none
  std::span<const ShardTensor> tensors() const override { return tensors_; }
  absl::StatusOr<std::optional<TensorDigest>> DeviceDigest(size_t tensor) override;

 private:
  Snapshot(Device& device, std::span<StageState* const> states)
      : device_(device), states_(states.begin(), states.end()) {}

  Device& device_;
  const std::vector<StageState*> states_;
  std::unique_ptr<Memory> memory_;
  std::vector<const StateTensor*> owned_;
  std::vector<ShardTensor> tensors_;  // of owned_; their bytes are in memory_
  Step step_;
  std::map<std::string, TensorDigest> digests_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_CHECKPOINT_SNAPSHOT_H_
