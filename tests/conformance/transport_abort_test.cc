// What every transport must do when a worker gives up or goes: see Transport::Abort.
#include <gtest/gtest.h>

#include "common/clock.h"
#include "common/named_thread.h"
#include "tests/conformance/transport_conformance.h"

namespace stagecoach {
namespace {

// A flag that another thread waits for.
class Signal {
 public:
  void Set() {
    set_.store(true);
    set_.notify_all();
  }
  void Wait() const { set_.wait(false); }

 private:
  std::atomic<bool> set_{false};
};

const absl::Status kReason = absl::AbortedError("epoch 4 begins");

// Runs `wait` on a thread, calls `abort` when it has begun, and gives what `wait` returned.
absl::Status AbortWhile(const std::function<absl::Status(Signal&)>& wait, const std::function<void()>& abort) {
  Signal begun;
  absl::Status returned;
  NamedThread waiting("waiting", [&] { returned = wait(begun); });
  begun.Wait();
  const absl::Duration start = Clock::Real().Now();
  abort();
  waiting.Join();
  EXPECT_LT(Clock::Real().Now() - start, kAbortBound);
  return returned;
}

TEST_P(TransportConformanceTest, AbortReleasesAWaitingSenderAndReceiver) {
  for (const uint32_t aborter : {0u, 1u}) {
    for (const bool send_waits : {true, false}) {
      MakePair();
      std::vector<std::byte> buffer(1 << 16);
      const absl::Status returned = AbortWhile(
          [&](Signal& begun) {
            auto transfer =
                send_waits ? sender_->Send(Tag(0), buffer, nullptr) : receiver_->Recv(Tag(0), buffer, nullptr);
            begun.Set();
            return transfer.ok() ? (*transfer)->Wait(kLongWait) : transfer.status();
          },
          [&] { group_->at(aborter).Abort(kReason); });
      const bool is_local = (aborter == 0) == send_waits;
      EXPECT_EQ(returned.code(), is_local ? absl::StatusCode::kAborted : absl::StatusCode::kUnavailable) << returned;
      if (is_local) {
        EXPECT_EQ(returned, kReason);
      }
      sender_.reset();
      receiver_.reset();
    }
  }
}

TEST_P(TransportConformanceTest, AbortReleasesConnect) {
  for (const uint32_t aborter : {0u, 1u}) {
    TransportGroup group(factory_, 2);
    const absl::Status returned = AbortWhile(
        [&](Signal& begun) {
          begun.Set();
          return group.at(0).Connect(group.peers(), kLongWait);
        },
        [&] { group.at(aborter).Abort(kReason); });
    EXPECT_EQ(returned.code(), aborter == 0 ? absl::StatusCode::kAborted : absl::StatusCode::kUnavailable);
    EXPECT_EQ(group.at(aborter).Connect(group.peers(), kLongWait), kReason);
  }
}

TEST_P(TransportConformanceTest, AbortReleasesAnIncompleteReadyEvent) {
  for (const uint32_t aborter : {0u, 1u}) {
    MakePair();
    auto never = std::make_shared<FakeEvent>();
    std::vector<std::byte> buffer(64), received(64);
    ASSERT_TRUE(sender_->Send(Tag(0), buffer, nullptr).ok());
    const absl::Status returned = AbortWhile(
        [&](Signal& started) {
          started.Set();
          auto transfer = receiver_->Recv(Tag(0), received, never);
          return transfer.ok() ? (*transfer)->Wait(kLongWait) : transfer.status();
        },
        [&] {
          never->WaitUntilAsked();
          group_->at(aborter).Abort(kReason);
        });
    EXPECT_EQ(returned.code(), aborter == 1 ? absl::StatusCode::kAborted : absl::StatusCode::kUnavailable);
    sender_.reset();
    receiver_.reset();
  }
}

// After Abort has returned, the aborter frees its buffers: under ASan a copy that goes on is found.
TEST_P(TransportConformanceTest, NoCopyRunsOnAfterAbort) {
  constexpr size_t kBytes = size_t{64} << 20;
  const std::vector<std::byte> pattern = Pattern(kBytes, 1);
  for (const uint32_t aborter : {0u, 1u}) {
    MakePair();
    auto readable = std::make_shared<FakeEvent>();
    auto writable = std::make_shared<FakeEvent>();
    readable->Complete();
    writable->Complete();
    auto sent = std::make_unique<std::vector<std::byte>>(pattern);
    auto received = std::make_unique<std::vector<std::byte>>(kBytes);
    absl::Status at_sender, at_receiver;
    NamedThread sending("send", [&] {
      auto transfer = sender_->Send(Tag(0), *sent, readable);
      at_sender = transfer.ok() ? (*transfer)->Wait(kLongWait) : transfer.status();
      if (aborter == 1) sent.reset();
    });
    NamedThread receiving("recv", [&] {
      auto transfer = receiver_->Recv(Tag(0), *received, writable);
      at_receiver = transfer.ok() ? (*transfer)->Wait(kLongWait) : transfer.status();
      if (aborter == 0) received.reset();
    });
    readable->WaitUntilAsked();
    writable->WaitUntilAsked();
    const absl::Duration start = Clock::Real().Now();
    group_->at(aborter).Abort(kReason);
    EXPECT_LT(Clock::Real().Now() - start, kAbortBound);
    // The aborter's waiter may still be returning, so its own thread does not free; this one does.
    (aborter == 0 ? sent : received).reset();
    sending.Join();
    receiving.Join();
    const absl::Status& at_aborter = aborter == 0 ? at_sender : at_receiver;
    EXPECT_TRUE(at_aborter.ok() || at_aborter == kReason) << at_aborter;  // the copy may have been faster
    sender_.reset();
    receiver_.reset();
  }
}

TEST_P(TransportConformanceTest, NothingStartsAfterAbort) {
  for (const uint32_t aborter : {0u, 1u}) {
    MakePair();
    auto sent = std::make_unique<std::vector<std::byte>>(Pattern(4096, 1));
    std::vector<std::byte> received(4096);
    Transfer* send = *sender_->Send(Tag(0), *sent, nullptr);
    group_->at(aborter).Abort(kReason);
    if (aborter == 0) sent.reset();
    auto recv = receiver_->Recv(Tag(0), received, nullptr);
    const absl::Status at_receiver = recv.ok() ? (*recv)->Wait(kLongWait) : recv.status();
    EXPECT_EQ(at_receiver.code(), aborter == 1 ? absl::StatusCode::kAborted : absl::StatusCode::kUnavailable);
    EXPECT_FALSE(send->Wait(kLongWait).ok());
    EXPECT_EQ(received, std::vector<std::byte>(4096));
    sender_.reset();
    receiver_.reset();
  }
}

TEST_P(TransportConformanceTest, CompleteTransfersStayCompleteAndTheFirstReasonCounts) {
  MakePair();
  std::vector<std::byte> buffer(64), received(64);
  Transfer* send = *sender_->Send(Tag(0), buffer, nullptr);
  Transfer* recv = *receiver_->Recv(Tag(0), received, nullptr);
  ASSERT_TRUE(send->Wait(kLongWait).ok());
  ASSERT_TRUE(recv->Wait(kLongWait).ok());
  group_->at(0).Abort(kReason);
  group_->at(0).Abort(absl::AbortedError("again"));
  EXPECT_TRUE(send->Wait(kLongWait).ok());
  EXPECT_EQ(sender_->Send(Tag(1), buffer, nullptr).status(), kReason);
}

TEST_P(TransportConformanceTest, DestroyedPeerIsUnavailable) {
  MakePair();
  std::vector<std::byte> buffer(64);
  const absl::Status returned = AbortWhile(
      [&](Signal& begun) {
        Transfer* send = *sender_->Send(Tag(0), buffer, nullptr);
        begun.Set();
        return send->Wait(kLongWait);
      },
      [&] {
        receiver_.reset();
        group_->Destroy(1);
      });
  EXPECT_EQ(returned.code(), absl::StatusCode::kUnavailable) << returned;
  const auto opened = group_->at(0).Open(TransportGroup::Spec(1, 0));
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kUnavailable) << opened.status();
  TransportGroup late(factory_, 2);
  late.Destroy(1);
  EXPECT_EQ(late.at(0).Connect(late.peers(), kLongWait).code(), absl::StatusCode::kUnavailable);
}

TEST_P(TransportConformanceTest, AbortFailsChannelsThatThePeerOpensLater) {
  group_ = std::make_unique<TransportGroup>(factory_, 2);
  group_->ConnectAll();
  group_->at(1).Abort(kReason);
  EXPECT_EQ(group_->at(1).Open(TransportGroup::Spec(0, 1)).status(), kReason);
  auto channel = group_->at(0).Open(TransportGroup::Spec(0, 1));
  std::vector<std::byte> buffer(64);
  absl::Status status = channel.status();
  if (channel.ok()) {
    auto send = (*channel)->Send(Tag(0), buffer, nullptr);
    status = send.ok() ? (*send)->Wait(kLongWait) : send.status();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace stagecoach
