#ifndef STAGECOACH_WORKER_CHECKPOINT_SHARD_WRITER_H_
#define STAGECOACH_WORKER_CHECKPOINT_SHARD_WRITER_H_

#include <functional>

#include "absl/status/statusor.h"
#include "common/file_system.h"
#include "common/ids.h"
#include "stagecoach/v1/worker.pb.h"
#include "worker/checkpoint/shard_source.h"

namespace stagecoach {

// Who writes: goes into each shard's metadata, so that a shard of an older attempt is never taken for this one's.
struct ShardIdentity {
  JobId job;
  Epoch epoch;
  Incarnation incarnation;
};

// Writes a source as one safetensors file. Used by one thread, which is one that may use the source; `files` outlives
// it. While it writes another thread computes the digests: a disk may be as fast as one core does either.
class ShardWriter {
 public:
  ShardWriter(FileSystem& files, ShardIdentity identity) : files_(files), identity_(std::move(identity)) {}

  // Durable at return. The space is reserved first, so that a full disk is noticed before anything is written.
  // FAILED_PRECONDITION: the source is of another step than order.step(). INVALID_ARGUMENT: order.file() is not a plain
  // file name; a dtype without a safetensors type. DATA_LOSS: the digest that the device computes is not that of the
  // bytes written. RESOURCE_EXHAUSTED: the disk is full. Errors of `may_go_on`, which is asked before each piece of a
  // tensor, and when all is durable, before the file gets its name. After an error there is no file.
  absl::StatusOr<v1::ShardWritten> Write(ShardSource& source, const v1::WriteCheckpoint& order,
                                         const std::function<absl::Status()>& may_go_on);

 private:
  FileSystem& files_;
  const ShardIdentity identity_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_CHECKPOINT_SHARD_WRITER_H_
