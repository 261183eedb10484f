#ifndef STAGECOACH_COORDINATOR_SERVICE_STREAM_WRITER_H_
#define STAGECOACH_COORDINATOR_SERVICE_STREAM_WRITER_H_

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "coordinator/service/grpc_status.h"

namespace stagecoach {

struct StreamLimits {
  size_t messages = 1024;  // that wait to be written
  size_t bytes = size_t{64} << 20;
};

// The outgoing half of a gRPC stream: a bounded queue in front of a reactor that takes one write at a time and one
// Finish, after the last write. Thread-safe; never blocks. The reactor outlives every call but one: nothing is touched
// after Finish, which may destroy it.
template <typename Reactor, typename Message>
class StreamWriter {
 public:
  StreamWriter(Reactor& reactor, const Clock& clock, StreamLimits limits)
      : reactor_(reactor), clock_(clock), limits_(limits) {}

  // UNAVAILABLE: the stream has ended. RESOURCE_EXHAUSTED: too much waits, or it is too large; it is not taken.
  absl::Status Push(Message message) {
    const size_t bytes = message.ByteSizeLong();
    {
      MutexLock lock(mutex_);
      if (end_.has_value()) return absl::UnavailableError("the stream has ended");
      if (bytes > limits_.bytes) return absl::ResourceExhaustedError(absl::StrCat("a message has ", bytes, " bytes"));
      if (queue_.size() >= limits_.messages || queued_bytes_ + bytes > limits_.bytes) {
        return absl::ResourceExhaustedError("the peer does not read what it is sent");
      }
      queued_bytes_ += bytes;
      queue_.push_back(std::move(message));
    }
    Advance();
    return absl::OkStatus();
  }

  // The first End or Abandon decides the status. End lets what waits be written before; Abandon drops it.
  void End(const absl::Status& status) { SetEnd(status, /*drop=*/false); }
  void Abandon(const absl::Status& status) { SetEnd(status, /*drop=*/true); }

  void OnWriteDone(bool ok) {
    {
      MutexLock lock(mutex_);
      writing_since_.reset();
      if (!ok) EndNow(absl::UnavailableError("the connection broke"));
    }
    Advance();
  }

  // Calls `cancel`, which must break the stream, when one write has taken longer than `timeout`: the peer may never
  // read the status.
  template <typename Cancel>
  void CancelIfStalled(absl::Duration timeout, Cancel cancel) {
    {
      MutexLock lock(mutex_);
      if (finished_ || !writing_since_.has_value() || clock_.Now() - *writing_since_ < timeout) return;
      EndNow(absl::ResourceExhaustedError("the peer does not read what it is sent"));
    }
    WhileUnfinished(cancel);
  }

  // Calls `use` unless Finish was called, which does not happen in the meantime: gRPC's stream is there.
  template <typename Use>
  void WhileUnfinished(Use use) {
    {
      MutexLock lock(mutex_);
      if (finished_) return;
      ++num_pins_;
    }
    use();
    {
      MutexLock lock(mutex_);
      --num_pins_;
    }
    Advance();
  }

  // At most half of what may wait does.
  bool HasRoom() const {
    MutexLock lock(mutex_);
    return queue_.size() <= limits_.messages / 2 && queued_bytes_ <= limits_.bytes / 2;
  }

 private:
  void SetEnd(const absl::Status& status, bool drop) {
    {
      MutexLock lock(mutex_);
      if (drop) {
        EndNow(status);
      } else if (!end_.has_value()) {
        end_ = status;
      }
    }
    Advance();
  }

  void EndNow(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!end_.has_value()) end_ = status;
    queue_.clear();
    queued_bytes_ = 0;
  }

  // Starts the next write, or finishes, when the stream is free. gRPC is called without the lock: it may call back.
  void Advance() {
    std::optional<grpc::Status> finish;
    {
      MutexLock lock(mutex_);
      if (finished_ || num_pins_ > 0 || writing_since_.has_value()) return;
      if (!queue_.empty()) {
        current_ = std::move(queue_.front());
        queue_.pop_front();
        queued_bytes_ -= current_.ByteSizeLong();
        writing_since_ = clock_.Now();
      } else if (end_.has_value()) {
        finished_ = true;
        finish = ToGrpc(*end_);
      } else {
        return;
      }
    }
    if (finish.has_value()) {
      reactor_.Finish(*std::move(finish));
    } else {
      reactor_.StartWrite(&current_);
    }
  }

  Reactor& reactor_;
  const Clock& clock_;
  const StreamLimits limits_;
  Message current_;  // of whoever has set writing_since_
  mutable Mutex mutex_;
  std::deque<Message> queue_ ABSL_GUARDED_BY(mutex_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<absl::Duration> writing_since_ ABSL_GUARDED_BY(mutex_);  // nullopt: no write is under way
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  int num_pins_ ABSL_GUARDED_BY(mutex_) = 0;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SERVICE_STREAM_WRITER_H_
