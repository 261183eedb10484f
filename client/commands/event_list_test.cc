#include "client/commands/event_list.h"

#include <gtest/gtest.h>

#include "tests/testing/simulated_clock.h"

namespace stagecoach {
namespace {

// Gives events 1, 2, ... with pauses between them.
class SlowStream {
 public:
  SlowStream(SimulatedClock& clock, absl::Duration pause) : clock_(clock), pause_(pause) {}

  absl::StatusOr<std::optional<v1::JobEvent>> Next() {
    clock_.Advance(pause_);
    if (num_calls_++ % 2 == 0) return std::nullopt;
    v1::JobEvent event;
    event.set_sequence(num_calls_ / 2);
    return event;
  }

 private:
  SimulatedClock& clock_;
  const absl::Duration pause_;
  uint64_t num_calls_ = 0;
};

TEST(EventListTest, ABusyCoordinatorIsWaitedFor) {
  SimulatedClock clock;
  SlowStream stream(clock, absl::Seconds(3));
  const auto events = EventsUpTo(
      3, [&stream] { return stream.Next(); }, clock);
  ASSERT_TRUE(events.ok()) << events.status();
  ASSERT_EQ(events->size(), 3u);
  EXPECT_EQ(events->back().sequence(), 3u);
}

TEST(EventListTest, ASilentOneIsAnErrorAndNotAnEmptyList) {
  SimulatedClock clock;
  const auto events = EventsUpTo(
      3,
      [&clock]() -> absl::StatusOr<std::optional<v1::JobEvent>> {
        clock.Advance(absl::Seconds(1));
        return std::nullopt;
      },
      clock);
  EXPECT_EQ(events.status().message(), "the coordinator does not tell all of the job's events");
}

TEST(EventListTest, WhatHasNoEventsIsNotAskedForAny) {
  SimulatedClock clock;
  const auto events = EventsUpTo(
      0, [] { return absl::InternalError("asked"); }, clock);
  ASSERT_TRUE(events.ok()) << events.status();
  EXPECT_TRUE(events->empty());
}

TEST(EventListTest, TheEndOfAStreamEndsTheList) {
  SimulatedClock clock;
  const auto events = EventsUpTo(
      5, [] { return absl::OutOfRangeError("the job has ended"); }, clock);
  ASSERT_TRUE(events.ok()) << events.status();
}

}  // namespace
}  // namespace stagecoach
