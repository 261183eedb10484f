#ifndef STAGECOACH_WORKER_CHECKPOINT_SNAPSHOT_WRITER_H_
#define STAGECOACH_WORKER_CHECKPOINT_SNAPSHOT_WRITER_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/file_system.h"
#include "common/mutex.h"
#include "common/named_thread.h"
#include "stagecoach/v1/worker.pb.h"
#include "worker/checkpoint/shard_writer.h"
#include "worker/checkpoint/snapshot.h"

namespace stagecoach {

// Holds a worker's snapshot, and the thread that writes it as a shard while training goes on.
//
//   empty --Take--> taken --Write--> being written --> empty
//
// A snapshot that is being written is not taken again: the executor never waits for a disk. Write and is_writing are
// any thread's, all else is the executor's.
class SnapshotWriter {
 public:
  struct Order {
    v1::WriteCheckpoint write;
    ShardIdentity identity;
    std::function<absl::Status()> may_go_on;                           // see ShardWriter
    std::function<void(absl::StatusOr<v1::ShardWritten> end)> on_end;  // called once, under no lock
  };

  explicit SnapshotWriter(FileSystem& files) : files_(files) {}
  ~SnapshotWriter();  // ends what is being written, and waits for it

  // The buffer for snapshots of these states, which outlive it. Errors of Snapshot::Create.
  absl::Status Allocate(Device& device, std::span<StageState* const> states);
  bool is_allocated() const { return snapshot_ != nullptr; }
  uint64_t bytes() const { return is_allocated() ? snapshot_->bytes() : 0; }  // of the buffer
  // Ends what is being written, waits for it, and drops the snapshot; the buffer stays. DEADLINE_EXCEEDED: a disk does
  // not let go within `timeout`, and all is as before.
  absl::Status Stop(absl::Duration timeout);
  void Free();  // the buffer, after Stop

  // See Snapshot::Take. FAILED_PRECONDITION: there is no buffer. RESOURCE_EXHAUSTED: the last one is still being
  // written.
  absl::Status Take(Stream& stream, std::map<std::string, TensorDigest> digests);
  void Drop();  // a snapshot of which nothing is being written

  // Begins to write the snapshot of the order's step: on_end will hear what ShardWriter::Write says. It hears nothing
  // after an error: FAILED_PRECONDITION, there is none of this step; RESOURCE_EXHAUSTED, one is being written.
  absl::Status Write(Order order);
  bool is_writing() const;

 private:
  enum class Phase { kEmpty, kTaking, kTaken, kWriting };

  void Loop();
  std::optional<Order> NextOrder();
  absl::Status CheckNotCancelled() const;

  FileSystem& files_;
  // The executor's but while it is being written.
  std::unique_ptr<Snapshot> snapshot_;

  mutable Mutex mutex_;
  CondVar changed_;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kEmpty;
  Step step_ ABSL_GUARDED_BY(mutex_);                   // of the snapshot that was taken last
  std::optional<Order> order_ ABSL_GUARDED_BY(mutex_);  // to be begun
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;      // what is being written
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;       // the thread

  bool has_thread_ = false;  // since the first buffer
  NamedThread thread_;       // last: it uses all of the above
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_CHECKPOINT_SNAPSHOT_WRITER_H_
