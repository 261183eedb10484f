#include "worker/transport/ucx/ucx_driver.h"

#include <poll.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "common/check.h"

namespace stagecoach {
namespace {

// How long after a wait the progress thread leaves UCX to the executor, which may be back soon: what arrives while it
// computes waits that long. Longer while it does come back each time, as one does that only moves data.
constexpr std::chrono::microseconds kShortestStandby(50);
constexpr std::chrono::microseconds kLongestStandby(200);

// A timer costs half a microsecond each time that somebody sleeps. Deadlines that are at least so far away are looked
// after by the progress thread, which then sleeps on a timer itself.
constexpr std::chrono::milliseconds kFarAway(10);

// How long who waits goes on asking before it sleeps: being woken takes as long. A peer that shares memory, and only
// moves data, has answered by then.
constexpr std::chrono::microseconds kBusyWait(10);

void SleepOn(int descriptor, UcxDriver::TimePoint deadline) {
  pollfd polled = {descriptor, POLLIN, 0};
  if (deadline == UcxDriver::TimePoint::max()) {
    poll(&polled, 1, -1);
    return;
  }
  const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - std::chrono::steady_clock::now());
  if (left.count() <= 0) return;
  const timespec timeout = {left.count() / 1'000'000'000, left.count() % 1'000'000'000};
  ppoll(&polled, 1, &timeout, nullptr);
}

}  // namespace

UcxDriver::UcxDriver(Engine& engine) : engine_(engine), progress_("ucx", [this] { RunProgressThread(); }) {}

UcxDriver::~UcxDriver() {
  {
    MutexLock lock(mutex_);
    STAGECOACH_CHECK(stopped_);
  }
  progress_.Join();
}

void UcxDriver::Reserve(size_t num_transfers) {
  MutexLock lock(mutex_);
  std::rotate(posted_.begin(), posted_.begin() + static_cast<std::ptrdiff_t>(first_posted_), posted_.end());
  first_posted_ = 0;
  posted_.resize(posted_.size() + num_transfers);
}

bool UcxDriver::Post(UcxTransfer& transfer) {
  MutexLock lock(mutex_);
  if (stopped_) return false;
  STAGECOACH_CHECK(num_posted_ < posted_.size());  // a channel has no more posts than slots
  posted_[(first_posted_ + num_posted_++) % posted_.size()] = &transfer;
  if (aborting_) return true;  // Abort ends it
  if (turn_ == 0 || IsProgressAsleep()) {
    TakeTurn();
    StartPosted();
    LeaveTurn();
  } else if (asleep_) {
    WakeSleepers();
  }
  return true;
}

void UcxDriver::WaitUntil(absl::FunctionRef<bool()> done, TimePoint deadline) {
  MutexLock lock(mutex_);
  while (!done() && !stopped_) {
    if (!aborting_ && (turn_ == 0 || IsProgressAsleep())) {
      if (Drive(TakeTurn(), done, deadline)) LeaveTurn();
      if (!done() && std::chrono::steady_clock::now() >= deadline) return;
      continue;
    }
    ++num_waiting_;
    const bool in_time = changed_.WaitUntil(mutex_, deadline);
    --num_waiting_;
    if (!in_time) return;
  }
}

bool UcxDriver::Run(absl::FunctionRef<void()> work) {
  MutexLock lock(mutex_);
  while (aborting_ ? !stopped_ : turn_ != 0 && !asleep_) {
    ++num_waiting_;
    ++num_runs_waiting_;
    changed_.Wait(mutex_);
    --num_runs_waiting_;
    --num_waiting_;
  }
  if (stopped_) return false;
  TakeTurn();
  StartPosted();  // the engine knows nothing of these yet, and `work` may free them
  mutex_.Unlock();
  work();
  const bool settled = engine_.TakeSettled();
  mutex_.Lock();
  NoteSettled(settled);
  LeaveTurn();
  return true;
}

void UcxDriver::Abort(const absl::Status& reason) {
  MutexLock lock(mutex_);
  if (!aborting_) {
    aborting_ = true;
    abort_reason_ = reason;
    WakeSleepers();
    resume_.NotifyAll();
    changed_.NotifyAll();
    while (turn_ != 0 && !asleep_) changed_.Wait(mutex_);
    TakeTurn();
    StartPosted();
    mutex_.Unlock();
    engine_.Stop(reason);
    mutex_.Lock();
    StartPosted();  // what was posted meanwhile fails too
    turn_ = 0;
    stopped_ = true;
    changed_.NotifyAll();
    resume_.NotifyAll();
  }
  while (!stopped_) changed_.Wait(mutex_);
}

absl::Status UcxDriver::abort_reason() const {
  MutexLock lock(mutex_);
  return abort_reason_;
}

void UcxDriver::RunProgressThread() {
  MutexLock lock(mutex_);
  std::chrono::microseconds standby = kShortestStandby;
  while (!aborting_) {
    const Turn before = last_turn_;
    resume_.WaitUntil(mutex_, std::chrono::steady_clock::now() + standby);
    if (aborting_) break;
    if (last_turn_ != before) {
      standby = std::min(2 * standby, kLongestStandby);
      continue;
    }
    standby = kShortestStandby;
    if (turn_ != 0) {  // an executor waits for long
      progress_parked_ = true;
      parked_until_ = sleepers_deadline_;
      if (!resume_.WaitUntil(mutex_, parked_until_)) WakeSleepers();
      progress_parked_ = false;
      continue;
    }
    progress_turn_ = TakeTurn();
    const auto somebody_waits = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return num_waiting_ > 0; };
    if (Drive(progress_turn_, somebody_waits, TimePoint::max())) LeaveTurn();
  }
  // Sleepers are on the engine's descriptor.
  while (!stopped_ || num_sleepers_ > 0) resume_.Wait(mutex_);
  mutex_.Unlock();
  engine_.Destroy();
  mutex_.Lock();
}

UcxDriver::Turn UcxDriver::TakeTurn() {
  turn_ = ++last_turn_;
  asleep_ = false;
  return turn_;
}

void UcxDriver::LeaveTurn() {
  turn_ = 0;
  if (num_waiting_ > 0 || aborting_) {
    changed_.NotifyAll();
  } else if (progress_parked_) {
    resume_.NotifyOne();
  }
  // Who sleeps without the turn does not look after anything.
  WakeSleepers();
}

void UcxDriver::WakeSleepers() {
  if (num_sleepers_ == 0) return;
  if (sleepers_leave_) {
    quiet_.NotifyAll();
    return;
  }
  sleepers_leave_ = true;
  engine_.Wake();
}

bool UcxDriver::Drive(Turn turn, absl::FunctionRef<bool()> stop, TimePoint deadline) {
  const TimePoint busy_until = turn == progress_turn_ ? TimePoint() : std::chrono::steady_clock::now() + kBusyWait;
  while (true) {
    StartPosted();
    const bool stepped = Step();
    if (aborting_ || stop()) return true;
    if (stepped || num_posted_ > 0) continue;
    const TimePoint now = std::chrono::steady_clock::now();
    if (now >= deadline) return true;
    if (now < busy_until) continue;
    if (!Sleep(turn, stop, deadline)) return false;
  }
}

bool UcxDriver::Sleep(Turn turn, absl::FunctionRef<bool()> stop, TimePoint deadline) {
  mutex_.Unlock();
  const bool prepared = engine_.PrepareToSleep();
  TimePoint wake = std::min(deadline, engine_.next_step());
  const int descriptor = engine_.event_fd();
  mutex_.Lock();
  if (!prepared || aborting_ || num_posted_ > 0 || stop()) return true;
  const bool progress_is_free = turn != progress_turn_ && num_sleepers_ == 0;
  if (progress_is_free && wake - std::chrono::steady_clock::now() > kFarAway) {
    sleepers_deadline_ = std::exchange(wake, TimePoint::max());
    // It parked before, when it was not to wake anybody so soon.
    if (progress_parked_ && sleepers_deadline_ < parked_until_) resume_.NotifyOne();
  }
  asleep_ = true;
  if (num_runs_waiting_ > 0) changed_.NotifyAll();
  if (sleepers_leave_) {
    // The descriptor stays readable until those who were woken have been given a processor. This one would not sleep on
    // it, and might keep that processor from them.
    quiet_.WaitUntil(mutex_, wake);
  } else {
    ++num_sleepers_;
    mutex_.Unlock();
    SleepOn(descriptor, wake);
    mutex_.Lock();
    if (--num_sleepers_ == 0 && sleepers_leave_) {
      sleepers_leave_ = false;
      engine_.ForgetWake();
      quiet_.NotifyAll();
    }
  }
  if (turn_ == turn) {
    asleep_ = false;
    sleepers_deadline_ = TimePoint::max();
    return true;
  }
  if (aborting_) resume_.NotifyAll();
  return false;
}

void UcxDriver::StartPosted() {
  while (num_posted_ > 0) {
    UcxTransfer& transfer = *posted_[first_posted_];
    first_posted_ = (first_posted_ + 1) % posted_.size();
    --num_posted_;
    mutex_.Unlock();
    engine_.Start(transfer);
    const bool settled = engine_.TakeSettled();
    mutex_.Lock();
    NoteSettled(settled);
  }
}

bool UcxDriver::Step() {
  mutex_.Unlock();
  const bool stepped = engine_.Step();
  const bool settled = engine_.TakeSettled();
  mutex_.Lock();
  NoteSettled(settled);
  return stepped;
}

void UcxDriver::NoteSettled(bool settled) {
  if (settled && num_waiting_ > 0) changed_.NotifyAll();
}

}  // namespace stagecoach
