#ifndef STAGECOACH_WORKER_AGENT_INTERRUPTS_H_
#define STAGECOACH_WORKER_AGENT_INTERRUPTS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"

namespace stagecoach {

// How the agent ends what the executor's thread is doing, by generation (see ExecutorCommand): what was asked later is
// left alone. Thread-safe.
class Interrupts {
 public:
  using Handler = std::function<void(const absl::Status& reason)>;

  explicit Interrupts(const Clock& clock) : clock_(clock) {}

  // Calls the handlers of this generation and of older ones; their checks fail from now on.
  void Interrupt(uint64_t generation, const absl::Status& reason);
  // From `end` on every check fails, until another end is set: a process that stood still for longer than its lease
  // notices at the next check, whichever of its threads runs first.
  void SetLeaseEnd(absl::Duration end);
  absl::Status Check(uint64_t generation) const;

  // While it lives, an interrupt that meets `generation` calls `handler`; at once, when it has come before. Handlers
  // run under a lock, so that what they use can be destroyed after the registration: they must not wait for long.
  class Registration {
   public:
    Registration(Interrupts& interrupts, uint64_t generation, Handler handler);
    ~Registration();
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

   private:
    friend class Interrupts;
    Interrupts& interrupts_;
    const uint64_t generation_;
    const Handler handler_;
  };

 private:
  const Clock& clock_;
  mutable Mutex mutex_;
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;  // the newest one interrupted
  absl::Status reason_ ABSL_GUARDED_BY(mutex_);
  absl::Duration lease_end_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();
  std::vector<const Registration*> registrations_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_AGENT_INTERRUPTS_H_
