#ifndef STAGECOACH_WORKER_CHECKPOINT_STATE_SOURCE_H_
#define STAGECOACH_WORKER_CHECKPOINT_STATE_SOURCE_H_

#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/checkpoint/owned_tensors.h"
#include "worker/checkpoint/shard_source.h"
#include "worker/device/device.h"
#include "worker/model/stage_state.h"

namespace stagecoach {

// What a worker's stages own, straight from device memory and without a copy of it. Executor's thread only: the state
// must not change while it lives. All arguments outlive it.
class StateSource final : public ShardSource {
 public:
  // Waits for what was enqueued on `stream`. FAILED_PRECONDITION: a stage is not at `step`, or the device's memory
  // cannot be read by the host. INVALID_ARGUMENT: one tensor owned by two stages. DEADLINE_EXCEEDED: the device is
  // lost.
  static absl::StatusOr<std::unique_ptr<StateSource>> Create(Device& device, Stream& stream,
                                                             std::span<StageState* const> states, Step step);

  Step step() const override { return step_; }
  std::span<const ShardTensor> tensors() const override { return tensors_; }
  // Always some.
  absl::StatusOr<std::optional<TensorDigest>> DeviceDigest(size_t tensor) override;

 private:
  StateSource(Stream& stream, Step step) : stream_(stream), step_(step) {}

  Stream& stream_;
  const Step step_;
  std::vector<OwnedTensor> owned_;
  std::vector<ShardTensor> tensors_;  // of owned_
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_CHECKPOINT_STATE_SOURCE_H_
