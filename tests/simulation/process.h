#ifndef STAGECOACH_TESTS_SIMULATION_PROCESS_H_
#define STAGECOACH_TESTS_SIMULATION_PROCESS_H_

#include <deque>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "tests/simulation/scheduler.h"

namespace stagecoach::simulation {

// One life of a daemon: what it is about to do does not happen when it has been killed, and waits while it is stopped
// (SIGSTOP).
class Process {
 public:
  explicit Process(Scheduler& scheduler) : scheduler_(scheduler), self_(std::make_shared<Process*>(this)) {}
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void After(absl::Duration delay, Scheduler::Action action) {
    scheduler_.After(delay, [weak = std::weak_ptr<Process*>(self_), action = std::move(action)]() mutable {
      const std::shared_ptr<Process*> self = weak.lock();
      if (self != nullptr && (*self)->alive_) (*self)->RunOrDefer(std::move(action));
    });
  }
  void Stop() { stopped_ = true; }
  // What came in the meantime happens at once, in its order.
  void Continue() {
    if (std::exchange(stopped_, false) && !deferred_.empty()) ScheduleDrain();
  }
  void Kill() { alive_ = false; }

  bool alive() const { return alive_; }
  bool stopped() const { return stopped_; }
  bool runs() const { return alive_ && !stopped_; }
  absl::Duration now() const { return scheduler_.now(); }

 private:
  void RunOrDefer(Scheduler::Action action) {
    if (stopped_ || !deferred_.empty()) {
      deferred_.push_back(std::move(action));
    } else {
      action();
    }
  }
  void ScheduleDrain() {
    scheduler_.After(absl::Microseconds(1), [weak = std::weak_ptr<Process*>(self_)] {
      const std::shared_ptr<Process*> self = weak.lock();
      if (self != nullptr && (*self)->runs()) (*self)->Drain();
    });
  }
  void Drain() {
    if (deferred_.empty()) return;
    Scheduler::Action action = std::move(deferred_.front());
    deferred_.pop_front();
    if (!deferred_.empty()) ScheduleDrain();
    action();
  }

  Scheduler& scheduler_;
  const std::shared_ptr<Process*> self_;
  bool alive_ = true;
  bool stopped_ = false;
  std::deque<Scheduler::Action> deferred_;
};

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_PROCESS_H_
