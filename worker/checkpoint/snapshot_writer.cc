#include "worker/checkpoint/snapshot_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"

namespace stagecoach {

SnapshotWriter::~SnapshotWriter() {
  {
    MutexLock lock(mutex_);
    stopping_ = cancelled_ = true;
    changed_.NotifyAll();
  }
  thread_.Join();
}

absl::Status SnapshotWriter::Allocate(Device& device, std::span<StageState* const> states) {
  STAGECOACH_CHECK(!is_allocated());
  STAGECOACH_ASSIGN_OR_RETURN(snapshot_, Snapshot::Create(device, states));
  if (!std::exchange(has_thread_, true)) thread_ = NamedThread("checkpoint", [this] { Loop(); });
  return absl::OkStatus();
}

absl::Status SnapshotWriter::Stop(absl::Duration timeout) {
  const auto deadline = DeadlineIn(timeout);
  MutexLock lock(mutex_);
  cancelled_ = true;
  while (phase_ == Phase::kWriting) {
    if (changed_.WaitUntil(mutex_, deadline) || phase_ != Phase::kWriting) continue;
    return absl::DeadlineExceededError(
        absl::StrCat("the shard of step ", step_.value(), " is still being written: its disk does not let go of it"));
  }
  phase_ = Phase::kEmpty;
  return absl::OkStatus();
}

void SnapshotWriter::Free() {
  STAGECOACH_CHECK(!is_writing());
  snapshot_.reset();
}

absl::Status SnapshotWriter::Take(Stream& stream, std::map<std::string, TensorDigest> digests) {
  if (!is_allocated()) return absl::FailedPreconditionError("the job's specification takes no snapshots");
  {
    MutexLock lock(mutex_);
    if (phase_ == Phase::kWriting) {
      return absl::ResourceExhaustedError(absl::StrCat("the snapshot of step ", step_.value(), " is being written"));
    }
    phase_ = Phase::kTaking;
  }
  const absl::Status taken = snapshot_->Take(stream, std::move(digests));
  MutexLock lock(mutex_);
  phase_ = taken.ok() ? Phase::kTaken : Phase::kEmpty;
  step_ = snapshot_->step();
  return taken;
}

void SnapshotWriter::Drop() {
  MutexLock lock(mutex_);
  if (phase_ == Phase::kTaken) phase_ = Phase::kEmpty;
}

bool SnapshotWriter::is_writing() const {
  MutexLock lock(mutex_);
  return phase_ == Phase::kWriting;
}

absl::Status SnapshotWriter::Write(Order order) {
  MutexLock lock(mutex_);
  if (phase_ == Phase::kWriting) {
    return absl::ResourceExhaustedError(absl::StrCat("the snapshot of step ", step_.value(), " is being written"));
  }
  if (phase_ != Phase::kTaken || step_.value() != order.write.step()) {
    return absl::FailedPreconditionError(absl::StrCat("there is no snapshot of step ", order.write.step()));
  }
  phase_ = Phase::kWriting;
  cancelled_ = false;
  order_ = std::move(order);
  changed_.NotifyAll();
  return absl::OkStatus();
}

std::optional<SnapshotWriter::Order> SnapshotWriter::NextOrder() {
  MutexLock lock(mutex_);
  while (!order_ && !stopping_) changed_.Wait(mutex_);
  return std::exchange(order_, std::nullopt);
}

absl::Status SnapshotWriter::CheckNotCancelled() const {
  MutexLock lock(mutex_);
  return cancelled_ ? absl::AbortedError("the snapshot was dropped") : absl::OkStatus();
}

void SnapshotWriter::Loop() {
  while (std::optional<Order> order = NextOrder()) {
    const auto may_go_on = [&] {
      STAGECOACH_RETURN_IF_ERROR(CheckNotCancelled());
      return order->may_go_on();
    };
    absl::StatusOr<v1::ShardWritten> end =
        ShardWriter(files_, order->identity).Write(*snapshot_, order->write, may_go_on);
    {
      MutexLock lock(mutex_);
      phase_ = Phase::kEmpty;
      changed_.NotifyAll();
    }
    order->on_end(std::move(end));
  }
}

}  // namespace stagecoach
