#include "worker/transport/ucx/ucx_driver.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/clock.h"
#include "worker/transport/ucx/ucx_edges.h"

namespace stagecoach {
namespace {

constexpr std::chrono::seconds kLong(20);  // never reached by a passing test

UcxDriver::TimePoint In(std::chrono::nanoseconds time) { return std::chrono::steady_clock::now() + time; }

// Keeps a thread from going on, as a machine does that has no processor for it. The thread must be in a system call
// that a signal interrupts, or about to be, and hold no lock. One at a time.
class StoppedThread {
 public:
  explicit StoppedThread(pthread_t thread) {
    for (int* const event : {&entered_, &leave_, &left_}) {
      *event = eventfd(0, EFD_CLOEXEC);
      STAGECOACH_CHECK(*event >= 0);
    }
    struct sigaction action = {};
    action.sa_handler = [](int) {
      eventfd_write(entered_, 1);
      Take(leave_);
      eventfd_write(left_, 1);
    };
    STAGECOACH_CHECK(sigaction(SIGUSR1, &action, &before_) == 0);
    STAGECOACH_CHECK(pthread_kill(thread, SIGUSR1) == 0);
    Take(entered_);
  }
  ~StoppedThread() {
    eventfd_write(leave_, 1);
    Take(left_);
    sigaction(SIGUSR1, &before_, nullptr);
    for (const int event : {entered_, leave_, left_}) close(event);
  }

 private:
  static void Take(int event) {
    eventfd_t ignored;
    eventfd_read(event, &ignored);
  }

  static inline int entered_ = -1;
  static inline int leave_ = -1;
  static inline int left_ = -1;
  struct sigaction before_ = {};
};

// An engine without UCX. Counts what it is told, and fails the test when two threads are in it at once.
class FakeEngine final : public UcxDriver::Engine {
 public:
  FakeEngine() : fd_(eventfd(0, EFD_NONBLOCK)), wake_fd_(eventfd(0, EFD_NONBLOCK)), epoll_(epoll_create1(0)) {
    for (const int fd : {fd_, wake_fd_}) {
      epoll_event event = {};
      event.events = EPOLLIN;
      epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
    }
  }
  ~FakeEngine() {
    for (const int fd : {fd_, wake_fd_, epoll_}) close(fd);
  }

  // As if a message had come. Any thread.
  void Arrive() { eventfd_write(fd_, 1); }
  int num_arrived() const { return num_arrived_.load(); }
  int num_started() const { return num_started_.load(); }
  bool is_stopped() const { return stopped_.load(); }
  bool is_destroyed() const { return destroyed_.load(); }
  void StepEvery(std::chrono::milliseconds interval) { interval_ = interval; }
  int num_steps() const { return num_steps_.load(); }
  int num_sleeps() const { return num_sleeps_.load(); }
  // The next step takes so long.
  void DelayStep(std::chrono::milliseconds time) { delay_.store(time); }
  bool has_begun_delay() const { return delay_.load() == std::chrono::milliseconds(0); }
  // Who is on the descriptor when somebody is next woken gets no processor until LetSleeperGo. Nothing may have
  // arrived, and no timer run.
  void KeepNextSleeper() { keep_sleeper_ = true; }
  bool is_sleeper_kept() const { return kept_sleeper_.has_value(); }
  void LetSleeperGo() { kept_sleeper_.reset(); }

  void Start(UcxTransfer&) override {
    const Inside inside(*this);
    ++num_started_;
    settled_ = true;
  }
  bool Step() override {
    const Inside inside(*this);
    ++num_steps_;
    const auto end = In(delay_.exchange({}));
    while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
    eventfd_t arrived = 0;
    if (eventfd_read(fd_, &arrived) != 0) return false;
    num_arrived_ += static_cast<int>(arrived);
    settled_ = true;
    return true;
  }
  bool PrepareToSleep() override {
    const Inside inside(*this);
    ++num_sleeps_;
    last_sleeper_ = pthread_self();
    return true;
  }
  UcxDriver::TimePoint next_step() const override {
    const std::chrono::milliseconds interval = interval_.load();
    return interval.count() == 0 ? UcxDriver::TimePoint::max() : In(interval);
  }
  bool TakeSettled() override { return std::exchange(settled_, false); }
  void Stop(const absl::Status&) override {
    const Inside inside(*this);
    stopped_ = true;
  }
  void Destroy() override { destroyed_ = true; }
  int event_fd() const override { return epoll_; }
  void Wake() override {
    if (std::exchange(keep_sleeper_, false)) kept_sleeper_.emplace(last_sleeper_);
    eventfd_write(wake_fd_, 1);
  }
  void ForgetWake() override {
    eventfd_t ignored;
    eventfd_read(wake_fd_, &ignored);
  }

 private:
  class Inside {
   public:
    explicit Inside(FakeEngine& engine) : engine_(engine) { EXPECT_EQ(engine_.num_inside_.fetch_add(1), 0); }
    ~Inside() { engine_.num_inside_.fetch_sub(1); }

   private:
    FakeEngine& engine_;
  };

  const int fd_, wake_fd_, epoll_;
  std::atomic<int> num_inside_{0};
  std::atomic<int> num_arrived_{0}, num_started_{0}, num_steps_{0}, num_sleeps_{0};
  std::atomic<bool> stopped_{false}, destroyed_{false};
  std::atomic<std::chrono::milliseconds> interval_{};
  std::atomic<std::chrono::milliseconds> delay_{};
  bool settled_ = false;         // of who has the turn
  pthread_t last_sleeper_ = {};  // likewise
  bool keep_sleeper_ = false;    // under the driver's lock, as Wake
  std::optional<StoppedThread> kept_sleeper_;
};

class UcxDriverTest : public testing::Test {
 protected:
  UcxDriverTest() : end_({.name = "edge", .key = {}, .peer = WorkerRank(1), .number = 0, .route = ""}, 1, driver_) {
    driver_.Reserve(64);
  }
  ~UcxDriverTest() override { driver_.Abort(absl::AbortedError("the test is over")); }

  void WaitForArrivals(int number) {
    driver_.WaitUntil([&] { return engine_.num_arrived() >= number; }, In(kLong));
    EXPECT_GE(engine_.num_arrived(), number);
  }

  FakeEngine engine_;
  UcxDriver driver_{engine_};
  UcxEnd end_;
  UcxTransfer transfer_{end_};
};

TEST_F(UcxDriverTest, WhoWaitsSeesWhatArrives) {
  for (int i = 1; i <= 1000; ++i) {
    engine_.Arrive();
    WaitForArrivals(i);
  }
}

TEST_F(UcxDriverTest, SomebodySeesWhatArrivesWhileNobodyWaits) {
  for (int i = 1; i <= 20; ++i) {
    engine_.Arrive();
    const auto deadline = In(kLong);
    while (engine_.num_arrived() < i && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    ASSERT_EQ(engine_.num_arrived(), i);
    driver_.WaitUntil([] { return true; }, In(kLong));
    driver_.WaitUntil([] { return false; }, In(std::chrono::microseconds(100)));  // takes the turn for a while
  }
}

TEST_F(UcxDriverTest, DeadlinesNearAndFarAreKept) {
  for (const std::chrono::milliseconds timeout : {std::chrono::milliseconds(1), std::chrono::milliseconds(30)}) {
    const auto start = std::chrono::steady_clock::now();
    driver_.WaitUntil([] { return false; }, start + timeout);
    EXPECT_GE(std::chrono::steady_clock::now() - start, timeout);
    EXPECT_LT(std::chrono::steady_clock::now() - start, kLong);
  }
}

// The progress thread, which looks after far deadlines, has gone to rest when it hears of this one.
TEST_F(UcxDriverTest, ADeadlineIsKeptAlthoughTheFirstStepTookLong) {
  for (int i = 0; i < 5; ++i) {
    driver_.WaitUntil([] { return false; }, In(std::chrono::milliseconds(1)));  // after which it stands by
    engine_.DelayStep(std::chrono::milliseconds(5));
    const auto start = std::chrono::steady_clock::now();
    driver_.WaitUntil([] { return false; }, start + std::chrono::milliseconds(25));
    EXPECT_LT(std::chrono::steady_clock::now() - start, kLong);
  }
}

TEST_F(UcxDriverTest, StepsWhenTheEngineAsksForIt) {
  engine_.StepEvery(std::chrono::milliseconds(1));
  const int before = engine_.num_steps();
  driver_.WaitUntil([&] { return engine_.num_steps() >= before + 5; }, In(kLong));
  EXPECT_GE(engine_.num_steps(), before + 5);
}

TEST_F(UcxDriverTest, PostsAreStartedWhoeverHasTheTurn) {
  std::atomic<bool> over{false};
  NamedThread waiting("waiting", [&] { driver_.WaitUntil([&] { return over.load(); }, In(kLong)); });
  for (int i = 1; i <= 200; ++i) {
    ASSERT_TRUE(driver_.Post(transfer_));
    driver_.WaitUntil([&] { return engine_.num_started() >= i; }, In(kLong));
    ASSERT_EQ(engine_.num_started(), i);
  }
  over = true;
  engine_.Arrive();
}

// Work may end what was posted before it, and free it.
TEST_F(UcxDriverTest, WorkFindsWhatWasPostedBeforeItStarted) {
  for (int i = 1; i <= 5; ++i) {
    engine_.DelayStep(std::chrono::milliseconds(5));
    engine_.Arrive();
    while (!engine_.has_begun_delay()) std::this_thread::yield();
    ASSERT_TRUE(driver_.Post(transfer_));  // the progress thread has the turn, and is to give it up for what follows
    ASSERT_TRUE(driver_.Run([&] { EXPECT_EQ(engine_.num_started(), i); }));
  }
}

// Threads that wait, post and run work at once: nobody is forgotten, and never are two in the engine.
TEST_F(UcxDriverTest, ManyThreadsTakeTurns) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 300;
  std::atomic<int> num_run{0};
  std::vector<NamedThread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back("turns", [&, thread] {
      for (int i = 0; i < kRounds; ++i) {
        if (i % 10 == thread) {
          EXPECT_TRUE(driver_.Run([&] { ++num_run; }));
        }
        const int before = engine_.num_arrived();
        engine_.Arrive();
        EXPECT_TRUE(driver_.Post(transfer_));
        driver_.WaitUntil([&] { return engine_.num_arrived() > before; }, In(kLong));
        EXPECT_GT(engine_.num_arrived(), before);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(num_run.load(), kThreads * kRounds / 10);
  driver_.WaitUntil([&] { return engine_.num_started() == kThreads * kRounds; }, In(kLong));
  EXPECT_EQ(engine_.num_started(), kThreads * kRounds);
}

TEST_F(UcxDriverTest, AbortEndsWaitsAndEverythingAfterIt) {
  std::atomic<int> num_ended{0};
  std::vector<NamedThread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back("waiting", [&] {
      driver_.WaitUntil([] { return false; }, In(kLong));
      ++num_ended;
    });
  }
  driver_.WaitUntil([] { return false; }, In(std::chrono::milliseconds(1)));
  driver_.Abort(absl::AbortedError("first"));
  EXPECT_TRUE(engine_.is_stopped());
  threads.clear();
  EXPECT_EQ(num_ended.load(), 3);
  driver_.Abort(absl::AbortedError("second"));
  EXPECT_EQ(driver_.abort_reason(), absl::AbortedError("first"));
  EXPECT_FALSE(driver_.Run([] { FAIL(); }));
  EXPECT_FALSE(driver_.Post(transfer_));
  driver_.WaitUntil([] { return false; }, In(kLong));
}

// The progress thread has been woken, since a post took its turn, and has not left the descriptor.
class UcxDriverLeavingTest : public UcxDriverTest {
 protected:
  UcxDriverLeavingTest() {
    engine_.KeepNextSleeper();
    for (int seen = 0; !engine_.is_sleeper_kept();) {
      while (engine_.num_sleeps() == seen) std::this_thread::yield();
      seen = engine_.num_sleeps();
      EXPECT_TRUE(driver_.Post(transfer_));
    }
  }
  ~UcxDriverLeavingTest() override {
    engine_.LetSleeperGo();
    EXPECT_LT(std::chrono::steady_clock::now() - begin_, kLong);
  }

  // For something to arrive. Returns when the thread sleeps, or will.
  NamedThread BeginWaiting() {
    const int before = engine_.num_sleeps();
    NamedThread waiting("waiting",
                        [this] { driver_.WaitUntil([this] { return engine_.num_arrived() > 0; }, begin_ + kLong); });
    while (engine_.num_sleeps() == before) std::this_thread::yield();
    return waiting;
  }

  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// The one who was woken needs the processor that the other would have kept.
TEST_F(UcxDriverLeavingTest, WhoWaitsSleeps) {
  const int before = engine_.num_steps();
  driver_.WaitUntil([] { return false; }, In(std::chrono::milliseconds(20)));
  EXPECT_LT(engine_.num_steps() - before, 500);  // it asks for a moment first; without sleep there are 20,000
}

TEST_F(UcxDriverLeavingTest, WhoWaitsSeesWhatHasArrivedWhenTheOtherIsGone) {
  const NamedThread waiting = BeginWaiting();
  engine_.Arrive();
  engine_.LetSleeperGo();
}

TEST_F(UcxDriverLeavingTest, WhoWaitsStartsWhatIsPosted) {
  const NamedThread waiting = BeginWaiting();
  const int before = engine_.num_started();
  ASSERT_TRUE(driver_.Post(transfer_));
  while (engine_.num_started() == before && std::chrono::steady_clock::now() < begin_ + kLong) {
    std::this_thread::yield();
  }
  engine_.Arrive();
  engine_.LetSleeperGo();
}

TEST_F(UcxDriverLeavingTest, WorkNeedNotWait) {
  const NamedThread waiting = BeginWaiting();
  ASSERT_TRUE(driver_.Run([this] { engine_.Arrive(); }));
}

TEST_F(UcxDriverLeavingTest, AbortEndsTheWait) {
  const NamedThread waiting = BeginWaiting();
  driver_.Abort(absl::AbortedError("the end"));
}

TEST(UcxDriverLifeTest, TheEngineIsDestroyedByTheEndOfTheDriver) {
  FakeEngine engine;
  {
    UcxDriver driver(engine);
    driver.Abort(absl::AbortedError("the end"));
  }
  EXPECT_TRUE(engine.is_destroyed());
}

}  // namespace
}  // namespace stagecoach
