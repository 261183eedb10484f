#include "worker/agent/lease.h"

#include <gtest/gtest.h>

namespace stagecoach {
namespace {

constexpr absl::Duration kLength = absl::Seconds(3);
constexpr absl::Duration kUsable = absl::Milliseconds(2700);

absl::Duration At(double seconds) { return absl::Seconds(seconds); }

TEST(LeaseTest, DoesNotEndBeforeItIsGranted) {
  Lease lease;
  lease.OnHeartbeatReply(1);
  EXPECT_EQ(lease.end(), absl::InfiniteDuration());
}

TEST(LeaseTest, RunsFromTheSendingOfHelloLessATenth) {
  Lease lease;
  lease.Grant(kLength, At(10));
  EXPECT_EQ(lease.end(), At(10) + kUsable);
}

TEST(LeaseTest, RunsFromTheSendingOfTheNewestAnsweredHeartbeat) {
  Lease lease;
  lease.Grant(kLength, At(10));
  lease.OnHeartbeatSent(1, At(11));
  lease.OnHeartbeatSent(2, At(12));
  EXPECT_EQ(lease.end(), At(10) + kUsable);
  lease.OnHeartbeatReply(1);
  EXPECT_EQ(lease.end(), At(11) + kUsable);
  lease.OnHeartbeatReply(2);
  EXPECT_EQ(lease.end(), At(12) + kUsable);
}

TEST(LeaseTest, RepliesThatAreLateRepeatedOrInventedChangeNothing) {
  Lease lease;
  lease.Grant(kLength, At(10));
  for (uint64_t sequence = 1; sequence <= 3; ++sequence) {
    lease.OnHeartbeatSent(sequence, At(10 + static_cast<double>(sequence)));
  }
  lease.OnHeartbeatReply(2);
  for (const uint64_t sequence : {uint64_t{1}, uint64_t{2}, uint64_t{0}}) {
    lease.OnHeartbeatReply(sequence);
    EXPECT_EQ(lease.end(), At(12) + kUsable) << sequence;
  }
  lease.OnHeartbeatReply(99);
  EXPECT_EQ(lease.end(), At(12) + kUsable);
  lease.OnHeartbeatReply(3);
  EXPECT_EQ(lease.end(), At(13) + kUsable);
}

TEST(LeaseTest, HeartbeatsOfTheSessionBeforeDoNotRenewIt) {
  Lease lease;
  lease.Grant(kLength, At(10));
  lease.OnHeartbeatSent(1, At(20));
  lease.Grant(kLength, At(15));
  lease.OnHeartbeatReply(1);
  EXPECT_EQ(lease.end(), At(15) + kUsable);
}

TEST(LeaseTest, WithoutALengthNeverEnds) {
  Lease lease;
  lease.Grant(absl::ZeroDuration(), At(10));
  EXPECT_EQ(lease.end(), absl::InfiniteDuration());
}

TEST(LeaseTest, ForgetsHeartbeatsThatCouldNotProlongIt) {
  Lease lease;
  lease.Grant(kLength, At(10));
  for (uint64_t sequence = 1; sequence <= 1000; ++sequence) {
    lease.OnHeartbeatSent(sequence, At(10 + 0.25 * static_cast<double>(sequence)));
  }
  lease.OnHeartbeatReply(1);
  EXPECT_EQ(lease.end(), At(10) + kUsable);
  lease.OnHeartbeatReply(1000);
  EXPECT_EQ(lease.end(), At(260) + kUsable);
}

}  // namespace
}  // namespace stagecoach
