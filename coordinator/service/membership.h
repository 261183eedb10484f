#ifndef STAGECOACH_COORDINATOR_SERVICE_MEMBERSHIP_H_
#define STAGECOACH_COORDINATOR_SERVICE_MEMBERSHIP_H_

#include <optional>

#include "common/mutex.h"

namespace stagecoach {

// Of a stream in what it reads, which it joins on one thread, perhaps again later, and leaves on another, once and for
// all. Whichever of a join and the leaving comes second has to undo the join. Thread-safe.
template <typename Id>
class Membership {
 public:
  // True: from now on Leave knows of it. False: the stream has left, and the caller ends what `id` is.
  bool Join(Id id) {
    MutexLock lock(mutex_);
    id_ = id;
    return !left_;
  }

  struct Leaving {
    bool is_first = false;                // the others have nothing to do
    std::optional<Id> id = std::nullopt;  // what to end; nothing when it has not joined
  };
  Leaving Leave() {
    MutexLock lock(mutex_);
    if (left_) return {};
    left_ = true;
    return {.is_first = true, .id = id_};
  }

  bool has_left() const {
    MutexLock lock(mutex_);
    return left_;
  }

 private:
  mutable Mutex mutex_;
  std::optional<Id> id_ ABSL_GUARDED_BY(mutex_);
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SERVICE_MEMBERSHIP_H_
