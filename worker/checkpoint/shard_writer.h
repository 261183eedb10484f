#ifndef STAGECOACH_WORKER_CHECKPOINT_SHARD_WRITER_H_
#define STAGECOACH_WORKER_CHECKPOINT_SHARD_WRITER_H_

#include <functional>
#include <span>

#include "absl/status/statusor.h"
#include "common/file_system.h"
#include "common/ids.h"
#include "stagecoach/v1/worker.pb.h"
#include "worker/device/device.h"
#include "worker/model/stage_state.h"

namespace stagecoach {

// Who writes: goes into each shard's metadata, so that a shard of an older attempt is never taken for this one's.
struct ShardIdentity {
  JobId job;
  Epoch epoch;
  Incarnation incarnation;
};

// Writes what a worker's stages own (parameters, optimizer state) as one safetensors file, straight from device memory
// and without a copy of it. A tied copy whose owner is elsewhere is left out. Executor's thread only: the state must
// not change meanwhile. All arguments outlive it.
class ShardWriter {
 public:
  ShardWriter(FileSystem& files, Device& device, ShardIdentity identity)
      : files_(files), device_(device), identity_(std::move(identity)) {}

  // Durable at return. FAILED_PRECONDITION: a stage is not at order.step(), or the device's memory cannot be read by
  // the host. INVALID_ARGUMENT: order.file() is not a plain file name; one tensor owned by two stages; a dtype without
  // a safetensors type. DATA_LOSS: the digest that the device computes is not that of the bytes written.
  // RESOURCE_EXHAUSTED: the disk is full. Errors of `may_go_on`, which is asked before each tensor and before the file
  // gets its name. After an error there is no file.
  absl::StatusOr<v1::ShardWritten> Write(Stream& stream, std::span<StageState* const> states,
                                         const v1::WriteCheckpoint& order,
                                         const std::function<absl::Status()>& may_go_on);

 private:
  FileSystem& files_;
  Device& device_;
  const ShardIdentity identity_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_CHECKPOINT_SHARD_WRITER_H_
