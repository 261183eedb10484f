#ifndef STAGECOACH_WORKER_TRANSPORT_UCX_UCX_DRIVER_H_
#define STAGECOACH_WORKER_TRANSPORT_UCX_UCX_DRIVER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/named_thread.h"

namespace stagecoach {

class UcxTransfer;

// Decides which thread calls UCX. One thread at a time has the turn, and only that one calls the engine.
//
// The transport's progress thread has it while the executor computes: a rendezvous needs both ends' processes to look
// after it. A thread that waits takes the turn itself and sleeps on UCX's event descriptor, since the way over another
// thread would cost two context switches a transfer; when it comes back soon, the progress thread does not even try.
// Whoever has the turn and nothing to do sleeps. A turn whose holder sleeps can be taken: it notices when it wakes.
class UcxDriver {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // What whoever has the turn calls; never two threads at once.
  class Engine {
   public:
    virtual void Start(UcxTransfer& transfer) = 0;  // one that an executor has posted
    virtual bool Step() = 0;                        // progress; whether anything happened
    virtual bool PrepareToSleep() = 0;              // false: call Step first
    virtual TimePoint next_step() const = 0;        // when Step is due although the descriptor says nothing
    virtual bool TakeSettled() = 0;                 // whether since the last call something happened that is waited for
    virtual void Stop(
        const absl::Status& reason) = 0;  // ends all transfers, tells the peers; nothing but Destroy follows
    virtual void Destroy() = 0;           // gives everything back; may wait for the machine, not for peers
    // Readable when Step has something to do, after PrepareToSleep, and between Wake and ForgetWake. Those two are
    // called without the turn.
    virtual int event_fd() const = 0;
    virtual void Wake() = 0;
    virtual void ForgetWake() = 0;

   protected:
    ~Engine() = default;
  };

  explicit UcxDriver(Engine& engine);
  ~UcxDriver();  // after Abort

  // Makes room for `num_transfers` more that are posted and not started.
  void Reserve(size_t num_transfers);
  // Starts `transfer` now or, while another thread has the turn, soon. False: stopped.
  bool Post(UcxTransfer& transfer);
  // Returns when `done`, at the deadline, or when stopped. `done` reads atomics only.
  void WaitUntil(absl::FunctionRef<bool()> done, TimePoint deadline);
  // Calls `work` with the turn. False: stopped, not called.
  bool Run(absl::FunctionRef<void()> work);
  // Any thread. The first reason counts. The engine has stopped when it returns; the progress thread destroys it then.
  void Abort(const absl::Status& reason);
  absl::Status abort_reason() const;  // OK until Abort

 private:
  // 0: the turn is free. Each taking has a number of its own, so that a sleeper sees whether it lost it.
  using Turn = uint64_t;

  void RunProgressThread();
  bool IsProgressAsleep() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return asleep_ && turn_ == progress_turn_; }
  Turn TakeTurn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LeaveTurn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // With the turn. Drive returns when `stop`, at the deadline, or when it must not go on; false: the turn is lost.
  bool Drive(Turn turn, absl::FunctionRef<bool()> stop, TimePoint deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WakeSleepers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Sleep(Turn turn, absl::FunctionRef<bool()> stop, TimePoint deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartPosted() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Step() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteSettled(bool settled) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Engine& engine_;

  mutable Mutex mutex_;
  CondVar changed_;                                           // the turn is free, something settled, or stopped
  CondVar resume_;                                            // for the progress thread
  CondVar quiet_;                                             // who was woken has left the descriptor, or must wake
  std::vector<UcxTransfer*> posted_ ABSL_GUARDED_BY(mutex_);  // ring
  size_t first_posted_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t num_posted_ ABSL_GUARDED_BY(mutex_) = 0;
  Turn turn_ ABSL_GUARDED_BY(mutex_) = 0;
  Turn last_turn_ ABSL_GUARDED_BY(mutex_) = 0;
  Turn progress_turn_ ABSL_GUARDED_BY(mutex_) = 0;  // the progress thread's last one
  bool asleep_ ABSL_GUARDED_BY(mutex_) = false;     // who has the turn
  int num_sleepers_ ABSL_GUARDED_BY(mutex_) = 0;    // on the descriptor, with or without the turn
  bool sleepers_leave_ ABSL_GUARDED_BY(mutex_) = false;
  int num_waiting_ ABSL_GUARDED_BY(mutex_) = 0;       // for `changed_`
  int num_runs_waiting_ ABSL_GUARDED_BY(mutex_) = 0;  // of those, for the turn even of one who sleeps
  bool progress_parked_ ABSL_GUARDED_BY(mutex_) = false;
  TimePoint parked_until_ ABSL_GUARDED_BY(mutex_);
  // When the progress thread is to wake a sleeper, who sleeps without a timer of its own.
  TimePoint sleepers_deadline_ ABSL_GUARDED_BY(mutex_) = TimePoint::max();
  bool aborting_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status abort_reason_ ABSL_GUARDED_BY(mutex_);

  NamedThread progress_;  // last: it uses all others
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_TRANSPORT_UCX_UCX_DRIVER_H_
