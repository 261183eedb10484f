// What worker/session.h promises, over every kind of session.
#include "tests/conformance/session_conformance.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/named_thread.h"
#include "worker/session/grpc_session.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(20);  // never reached by a passing test
constexpr absl::Duration kAtOnce = absl::Seconds(2);    // on a machine that is busy with something else

v1::WorkerMessage FromWorker(uint64_t number) {
  v1::WorkerMessage message;
  message.mutable_heartbeat()->set_sequence(number);
  return message;
}
v1::CoordinatorMessage FromCoordinator(uint64_t number) {
  v1::CoordinatorMessage message;
  message.mutable_heartbeat_reply()->set_sequence(number);
  return message;
}

class SessionConformanceTest : public testing::TestWithParam<SessionKind> {
 protected:
  SessionConformanceTest() {
    session_ = world_->Dial();
    EXPECT_TRUE(session_->Send(FromWorker(0)).ok());
    other_ = world_->Accept();
    EXPECT_EQ(other_->Receive(kTimeout)->heartbeat().sequence(), 0u);
  }
  // Until sending fails; how often it worked.
  int SendUntilItFails(const v1::WorkerMessage& message, absl::Status& why) {
    int sent = 0;
    while ((why = session_->Send(message)).ok() && sent < (1 << 20)) ++sent;
    return sent;
  }
  // What comes after all messages.
  absl::Status ReceiveEnd() {
    while (true) {
      const absl::StatusOr<v1::CoordinatorMessage> message = session_->Receive(kTimeout);
      if (!message.ok()) return message.status();
    }
  }

  const std::unique_ptr<SessionWorld> world_ = GetParam().make();
  std::unique_ptr<Session> session_;
  std::shared_ptr<OtherEnd> other_;
};

TEST_P(SessionConformanceTest, MessagesComeInOrder) {
  constexpr uint64_t kCount = 1000;
  for (uint64_t i = 1; i <= kCount; ++i) {
    ASSERT_TRUE(session_->Send(FromWorker(i)).ok());
    ASSERT_TRUE(other_->Send(FromCoordinator(i)).ok());
  }
  for (uint64_t i = 1; i <= kCount; ++i) {
    ASSERT_EQ(other_->Receive(kTimeout)->heartbeat().sequence(), i);
    ASSERT_EQ(session_->Receive(kTimeout)->heartbeat_reply().sequence(), i);
  }
}

TEST_P(SessionConformanceTest, ProgramsOfManyMegabytesPass) {
  v1::CoordinatorMessage message;
  message.mutable_assign_stages()->mutable_program()->set_content_hash(std::string(40 << 20, 'x'));
  ASSERT_TRUE(other_->Send(message).ok());
  EXPECT_EQ(session_->Receive(kTimeout)->assign_stages().program().content_hash().size(), 40u << 20);
}

TEST_P(SessionConformanceTest, ReceiveEndsAtItsDeadline) {
  const absl::Duration start = Clock::Real().Now();
  EXPECT_EQ(session_->Receive(absl::Milliseconds(20)).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_GE(Clock::Real().Now() - start, absl::Milliseconds(20));
  EXPECT_EQ(session_->Receive(absl::ZeroDuration()).status().code(), absl::StatusCode::kDeadlineExceeded);
  ASSERT_TRUE(other_->Send(FromCoordinator(1)).ok());
  EXPECT_TRUE(session_->Receive(kTimeout).ok());
}

TEST_P(SessionConformanceTest, SendNeverWaitsForAnEndThatDoesNotRead) {
  other_->StopReading();
  v1::WorkerMessage message = FromWorker(1);
  message.mutable_heartbeat()->mutable_run()->set_action(std::string(1000, 'x'));
  absl::Status why;
  const absl::Duration start = Clock::Real().Now();
  EXPECT_LT(SendUntilItFails(message, why), 1 << 20);
  EXPECT_LT(Clock::Real().Now() - start, kTimeout);
  EXPECT_EQ(why.code(), absl::StatusCode::kResourceExhausted) << why;
}

TEST_P(SessionConformanceTest, CloseFromAnotherThreadEndsReceive) {
  std::atomic<bool> receiving{false};
  absl::Status received;
  NamedThread receiver("receiver", [&] {
    receiving.store(true);
    received = session_->Receive(absl::InfiniteDuration()).status();
  });
  while (!receiving.load()) std::this_thread::yield();
  const absl::Duration start = Clock::Real().Now();
  session_->Close();
  receiver.Join();
  EXPECT_LT(Clock::Real().Now() - start, kAtOnce);
  EXPECT_EQ(received.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(session_->Send(FromWorker(1)).code(), absl::StatusCode::kUnavailable);
  session_->Close();
}

TEST_P(SessionConformanceTest, TheOtherEndSeesAClose) {
  session_->Close();
  EXPECT_EQ(other_->Receive(kTimeout).status().code(), absl::StatusCode::kUnavailable);
}

TEST_P(SessionConformanceTest, TheOtherEndSeesADestruction) {
  const absl::Duration start = Clock::Real().Now();
  session_.reset();
  EXPECT_LT(Clock::Real().Now() - start, kAtOnce);
  EXPECT_EQ(other_->Receive(kTimeout).status().code(), absl::StatusCode::kUnavailable);
}

TEST_P(SessionConformanceTest, AnEndThatVanishesIsUnavailable) {
  ASSERT_TRUE(other_->Send(FromCoordinator(1)).ok());
  EXPECT_EQ(session_->Receive(kTimeout)->heartbeat_reply().sequence(), 1u);
  other_->Vanish();
  EXPECT_EQ(ReceiveEnd().code(), absl::StatusCode::kUnavailable);
  absl::Status why;
  SendUntilItFails(FromWorker(1), why);
  EXPECT_EQ(why.code(), absl::StatusCode::kUnavailable) << why;
}

TEST_P(SessionConformanceTest, WhatWasSentBeforeTheEndIsReceived) {
  for (uint64_t i = 1; i <= 100; ++i) ASSERT_TRUE(other_->Send(FromCoordinator(i)).ok());
  other_->End(absl::AbortedError("another incarnation"));
  for (uint64_t i = 1; i <= 100; ++i) {
    const absl::StatusOr<v1::CoordinatorMessage> message = session_->Receive(kTimeout);
    ASSERT_TRUE(message.ok()) << message.status();
    EXPECT_EQ(message->heartbeat_reply().sequence(), i);
  }
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(session_->Receive(kTimeout).status(), absl::AbortedError("another incarnation"));
}

TEST_P(SessionConformanceTest, EndsThatAreFinalKeepTheirCode) {
  for (const absl::Status& status :
       {absl::AbortedError("a"), absl::FailedPreconditionError("protocol version 1, not 2"),
        absl::InvalidArgumentError("c"), absl::UnavailableError("d")}) {
    const std::unique_ptr<Session> session = world_->Dial();
    ASSERT_TRUE(session->Send(FromWorker(0)).ok());
    world_->Accept()->End(status);
    EXPECT_EQ(session->Receive(kTimeout).status(), status);
  }
}

TEST_P(SessionConformanceTest, AllOtherEndsAreUnavailableAndSayWhat) {
  for (const absl::Status& status : {absl::OkStatus(), absl::DeadlineExceededError("the lease ran out"),
                                     absl::ResourceExhaustedError("full"), absl::InternalError("x")}) {
    const std::unique_ptr<Session> session = world_->Dial();
    ASSERT_TRUE(session->Send(FromWorker(0)).ok());
    world_->Accept()->End(status);
    const absl::Status end = session->Receive(kTimeout).status();
    EXPECT_EQ(end.code(), absl::StatusCode::kUnavailable) << end;
    EXPECT_NE(std::string(end.message()).find(std::string(status.message())), std::string::npos) << end;
  }
}

TEST_P(SessionConformanceTest, SessionsOneAfterAnotherLeaveNothingBehind) {
  const auto count = [](const char* directory) {
    return std::distance(std::filesystem::directory_iterator(directory), std::filesystem::directory_iterator());
  };
  const auto dial = [&](int times) {
    for (int i = 0; i < times; ++i) {
      const std::unique_ptr<Session> session = world_->Dial();
      ASSERT_TRUE(session->Send(FromWorker(0)).ok());
      const std::shared_ptr<OtherEnd> other = world_->Accept();
      ASSERT_TRUE(other->Receive(kTimeout).ok());
    }
  };
  dial(20);
  const auto descriptors = count("/proc/self/fd"), threads = count("/proc/self/task");
  dial(200);
  // A connection may take a moment to be closed, and gRPC's pool of threads breathes.
  EXPECT_LT(count("/proc/self/fd"), descriptors + 20);
  EXPECT_LT(count("/proc/self/task"), threads + 10);
}

INSTANTIATE_TEST_SUITE_P(Sessions, SessionConformanceTest, testing::ValuesIn(SessionsUnderTest()),
                         [](const auto& kind) { return kind.param.name; });

TEST(GrpcSessionTest, NobodyAtTheAddressIsUnavailable) {
  for (const char* address : {"127.0.0.1:1", "unix:/nonexistent/socket", "host.invalid:1"}) {
    const std::unique_ptr<Session> session = DialGrpcSession({.address = address});
    EXPECT_EQ(session->Receive(kTimeout).status().code(), absl::StatusCode::kUnavailable) << address;
  }
}

TEST(GrpcSessionTest, AWorkerThatDoesNotReadHoldsTheCoordinatorBackAndLosesNothing) {
  constexpr uint64_t kCount = 5000;
  const std::unique_ptr<SessionWorld> world = SessionsUnderTest()[1].make();
  const std::unique_ptr<Session> session = world->Dial();
  ASSERT_TRUE(session->Send(FromWorker(0)).ok());
  const std::shared_ptr<OtherEnd> other = world->Accept();
  for (uint64_t i = 1; i <= kCount; ++i) {
    v1::CoordinatorMessage message = FromCoordinator(i);
    message.mutable_fence()->set_job(std::string(1000, 'x'));
    ASSERT_TRUE(other->Send(std::move(message)).ok());
  }
  for (uint64_t i = 1; i <= kCount; ++i) ASSERT_EQ(session->Receive(kTimeout)->heartbeat_reply().sequence(), i);
}

}  // namespace
}  // namespace stagecoach
