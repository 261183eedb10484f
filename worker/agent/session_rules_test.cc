#include "worker/agent/session_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace stagecoach {
namespace {

using Deed = SessionRules::Deed;

constexpr absl::Duration kLease = absl::Seconds(3);
constexpr absl::Duration kUsable = absl::Milliseconds(2700);
constexpr absl::Duration kInterval = absl::Milliseconds(250);
constexpr absl::Duration kTick = absl::Milliseconds(1);

v1::Welcome MakeWelcome(absl::Duration lease = kLease, absl::Duration interval = kInterval,
                        absl::Duration orphan_timeout = absl::Minutes(10)) {
  v1::Welcome welcome;
  const auto set = [](google::protobuf::Duration& proto, absl::Duration duration) {
    proto.set_seconds(absl::ToInt64Seconds(duration));
    proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration % absl::Seconds(1))));
  };
  set(*welcome.mutable_lease(), lease);
  set(*welcome.mutable_heartbeat_interval(), interval);
  set(*welcome.mutable_orphan_timeout(), orphan_timeout);
  return welcome;
}

class SessionRulesTest : public testing::Test {
 protected:
  // What is due now, in order.
  std::vector<Deed> Due() {
    std::vector<Deed> deeds;
    while (const std::optional<Deed> deed = rules_.TakeDue(now_)) deeds.push_back(*deed);
    return deeds;
  }
  // Time passes as it does for the agent, which sleeps until the next deed; all that became due, each once.
  std::vector<Deed> Pass(absl::Duration duration) {
    std::vector<Deed> deeds;
    const absl::Duration end = now_ + duration;
    while (true) {
      for (const Deed deed : Due()) deeds.push_back(deed);
      if (rules_.NextDue() > end) break;
      EXPECT_GT(rules_.NextDue(), now_) << "a deed is due for ever";
      now_ = std::max(now_ + absl::Nanoseconds(1), rules_.NextDue());
    }
    now_ = end;
    return deeds;
  }
  void BeUp(const v1::Welcome& welcome = MakeWelcome()) {
    EXPECT_EQ(Due(), std::vector<Deed>{Deed::kDial});
    rules_.OnWelcome(welcome);
    EXPECT_TRUE(rules_.is_up());
  }
  void Beat() {
    now_ += kInterval;
    EXPECT_EQ(Due(), std::vector<Deed>{Deed::kHeartbeat});
    rules_.OnHeartbeatReply(rules_.heartbeat_sequence());
  }
  static int Count(const std::vector<Deed>& deeds, Deed deed) {
    return static_cast<int>(std::count(deeds.begin(), deeds.end(), deed));
  }

  absl::Duration now_ = absl::Seconds(100);
  SessionRules::Options options_;
  SessionRules rules_{options_, 7, now_};
};

TEST_F(SessionRulesTest, DialsAtOnceAndWaitsForTheWelcome) {
  EXPECT_EQ(rules_.NextDue(), now_);
  EXPECT_EQ(Due(), std::vector<Deed>{Deed::kDial});
  EXPECT_TRUE(rules_.has_session());
  EXPECT_FALSE(rules_.is_up());
  EXPECT_EQ(Pass(options_.welcome_timeout - kTick), std::vector<Deed>{});
  now_ += kTick;
  EXPECT_EQ(Due().front(), Deed::kHangUp);
}

TEST_F(SessionRulesTest, BeatsEveryIntervalAndCountsFromOne) {
  BeUp();
  for (uint64_t sequence = 1; sequence <= 3; ++sequence) {
    Beat();
    EXPECT_EQ(rules_.heartbeat_sequence(), sequence);
  }
}

TEST_F(SessionRulesTest, AWelcomeThatTookLongIsFollowedByAHeartbeatAtOnce) {
  EXPECT_EQ(Due(), std::vector<Deed>{Deed::kDial});
  now_ += kUsable - kTick;
  rules_.OnWelcome(MakeWelcome());
  EXPECT_EQ(Due(), std::vector<Deed>{Deed::kHeartbeat});
  rules_.OnHeartbeatReply(1);
  EXPECT_EQ(Count(Pass(kInterval), Deed::kQuiesce), 0);
}

TEST_F(SessionRulesTest, DoesNotMakeUpForHeartbeatsOfTheTimeItStoodStill) {
  BeUp();
  Beat();
  now_ += 5 * kInterval;
  EXPECT_EQ(Due(), std::vector<Deed>{Deed::kHeartbeat});
}

TEST_F(SessionRulesTest, AnsweredHeartbeatsKeepTheLease) {
  BeUp();
  for (int i = 0; i < 100; ++i) Beat();
  EXPECT_EQ(rules_.lease_end(), now_ + kUsable);
  EXPECT_FALSE(rules_.is_quiet());
}

TEST_F(SessionRulesTest, QuiescesOnceWhenTheLeaseIsOverAndHangsUp) {
  BeUp();
  std::vector<Deed> deeds = Pass(kUsable - kTick);
  EXPECT_EQ(Count(deeds, Deed::kQuiesce), 0);
  now_ += kTick;
  deeds = Due();
  ASSERT_GE(deeds.size(), 2u);
  EXPECT_EQ(deeds[0], Deed::kQuiesce);
  EXPECT_EQ(deeds[1], Deed::kHangUp);
  EXPECT_TRUE(rules_.is_quiet());
  EXPECT_EQ(Count(Pass(absl::Minutes(1)), Deed::kQuiesce), 0);
}

TEST_F(SessionRulesTest, TheLeaseOutlivesTheSession) {
  BeUp();
  Beat();
  const absl::Duration end = now_ + kUsable;
  rules_.OnSessionEnded(now_);
  EXPECT_EQ(rules_.lease_end(), end);
  EXPECT_EQ(Count(Pass(kUsable - kTick), Deed::kQuiesce), 0);
  EXPECT_EQ(Count(Pass(kTick), Deed::kQuiesce), 1);
}

TEST_F(SessionRulesTest, AWelcomeEndsTheQuiet) {
  BeUp();
  Pass(kUsable);
  EXPECT_TRUE(rules_.is_quiet());
  while (!rules_.has_session()) Pass(kTick);
  rules_.OnWelcome(MakeWelcome());
  EXPECT_FALSE(rules_.is_quiet());
  EXPECT_EQ(rules_.heartbeat_sequence(), 0u);
  Beat();
  EXPECT_EQ(rules_.heartbeat_sequence(), 1u);
}

TEST_F(SessionRulesTest, TheFirstRetryIsAtOnceAndLaterOnesWait) {
  BeUp(MakeWelcome(absl::ZeroDuration()));  // no lease, whose end would be due meanwhile
  Beat();
  rules_.OnSessionEnded(now_);
  EXPECT_EQ(Due(), std::vector<Deed>{Deed::kDial});
  rules_.OnSessionEnded(now_);
  EXPECT_EQ(Due(), std::vector<Deed>{});
  absl::Duration before = now_;
  for (int i = 0; i < 10; ++i) {
    EXPECT_LE(rules_.NextDue() - before, options_.redial.longest);
    now_ = before = rules_.NextDue();
    EXPECT_EQ(Count(Due(), Deed::kDial), 1);
    rules_.OnSessionEnded(now_);
  }
  EXPECT_GE(rules_.NextDue() - now_, options_.redial.longest / 2);
}

TEST_F(SessionRulesTest, ACoordinatorThatWelcomesAndHangsUpIsNotDialledInATightLoop) {
  BeUp();
  Beat();
  int dials = 0;
  const absl::Duration end = now_ + absl::Seconds(10);
  while (now_ < end) {
    rules_.OnSessionEnded(now_);
    now_ = std::max(now_, rules_.NextDue());
    dials += Count(Due(), Deed::kDial);
    rules_.OnWelcome(MakeWelcome());
  }
  EXPECT_LT(dials, 30);
}

TEST_F(SessionRulesTest, DropsTheStateOnceAfterTheOrphanTimeout) {
  BeUp(MakeWelcome(kLease, kInterval, absl::Minutes(2)));
  rules_.OnSessionEnded(now_);
  EXPECT_EQ(Count(Pass(absl::Minutes(2) - kTick), Deed::kDropState), 0);
  EXPECT_EQ(Count(Pass(absl::Minutes(10)), Deed::kDropState), 1);
  while (!rules_.has_session()) Pass(kTick);
  rules_.OnWelcome(MakeWelcome(kLease, kInterval, absl::Minutes(2)));
  rules_.OnSessionEnded(now_);
  EXPECT_EQ(Count(Pass(absl::Minutes(3)), Deed::kDropState), 1);
}

TEST_F(SessionRulesTest, AnUnwelcomedSessionDoesNotProlongTheOrphansTime) {
  BeUp(MakeWelcome(kLease, kInterval, absl::Minutes(2)));
  rules_.OnSessionEnded(now_);
  Pass(absl::Minutes(1));
  rules_.OnSessionEnded(now_);
  EXPECT_EQ(Count(Pass(absl::Minutes(1)), Deed::kDropState), 1);
}

TEST_F(SessionRulesTest, TheWorkersOwnOrphanTimeoutCountsBeforeTheCoordinators) {
  options_.orphan_timeout = absl::Seconds(5);
  SessionRules rules(options_, 7, now_);
  EXPECT_EQ(rules.TakeDue(now_), Deed::kDial);
  rules.OnWelcome(MakeWelcome());
  rules.OnSessionEnded(now_);
  now_ += absl::Seconds(5);
  EXPECT_EQ(rules.TakeDue(now_), Deed::kQuiesce);
  EXPECT_EQ(rules.TakeDue(now_), Deed::kDropState);
}

TEST_F(SessionRulesTest, KeepsDiallingForEverUnlessToldOtherwise) {
  EXPECT_EQ(Count(Pass(absl::Hours(1)), Deed::kGiveUp), 0);
}

TEST_F(SessionRulesTest, GivesUpOnceAfterTheDialTimeout) {
  options_.dial_timeout = absl::Minutes(1);
  SessionRules rules(options_, 7, now_);
  EXPECT_EQ(rules.TakeDue(now_), Deed::kDial);
  rules.OnSessionEnded(now_);
  now_ += absl::Minutes(1) - kTick;
  EXPECT_EQ(rules.TakeDue(now_), Deed::kDial);
  now_ += kTick;
  EXPECT_EQ(rules.TakeDue(now_), Deed::kGiveUp);
  EXPECT_EQ(rules.TakeDue(now_), std::nullopt);
}

TEST_F(SessionRulesTest, AbandonsWhenItHasBeenLeavingForLongEnough) {
  BeUp();
  rules_.OnLeaving(absl::Seconds(1), now_);
  for (int i = 0; i < 3; ++i) Beat();
  EXPECT_EQ(Count(Pass(absl::Milliseconds(249)), Deed::kAbandon), 0);
  EXPECT_EQ(Count(Pass(absl::Milliseconds(1)), Deed::kAbandon), 1);
  EXPECT_EQ(Count(Pass(absl::Seconds(1)), Deed::kAbandon), 0);
}

TEST_F(SessionRulesTest, WithoutLeaseAndHeartbeatsASessionStaysUp) {
  BeUp(MakeWelcome(absl::ZeroDuration(), absl::ZeroDuration()));
  EXPECT_EQ(Pass(absl::Hours(100)), std::vector<Deed>{});
  EXPECT_TRUE(rules_.is_up());
}

TEST_F(SessionRulesTest, AnUnexpectedWelcomeChangesNothing) {
  rules_.OnWelcome(MakeWelcome());
  EXPECT_FALSE(rules_.is_up());
  BeUp();
  Beat();
  const absl::Duration end = rules_.lease_end();
  rules_.OnWelcome(MakeWelcome(absl::Hours(1)));
  EXPECT_EQ(rules_.lease_end(), end);
}

}  // namespace
}  // namespace stagecoach
