#include "coordinator/service/stream_writer.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "stagecoach/v1/worker.pb.h"
#include "tests/testing/simulated_clock.h"

namespace stagecoach {
namespace {

// Records what it is asked to do; the test says when a write is done.
struct FakeReactor {
  void StartWrite(const v1::HeartbeatReply* reply) { written.push_back(reply->sequence()); }
  void Finish(const grpc::Status& status) { finished = status; }
  std::vector<uint64_t> written;
  std::optional<grpc::Status> finished;
};

v1::HeartbeatReply Reply(uint64_t sequence) {
  v1::HeartbeatReply reply;
  reply.set_sequence(sequence);
  return reply;
}

class StreamWriterTest : public testing::Test {
 protected:
  void Push(uint64_t sequence) { EXPECT_TRUE(writer_.Push(Reply(sequence)).ok()); }
  std::vector<uint64_t> written() const { return reactor_.written; }
  grpc::StatusCode finished() const { return reactor_.finished->error_code(); }

  SimulatedClock clock_;
  FakeReactor reactor_;
  StreamWriter<FakeReactor, v1::HeartbeatReply> writer_{reactor_, clock_, {.messages = 3, .bytes = 100}};
};

TEST_F(StreamWriterTest, WritesOneAfterAnother) {
  for (const uint64_t sequence : {1U, 2U, 3U}) Push(sequence);
  EXPECT_EQ(written(), std::vector<uint64_t>{1});
  writer_.OnWriteDone(true);
  writer_.OnWriteDone(true);
  EXPECT_EQ(written(), (std::vector<uint64_t>{1, 2, 3}));
  writer_.OnWriteDone(true);
  EXPECT_FALSE(reactor_.finished.has_value());
}

TEST_F(StreamWriterTest, RefusesWhatDoesNotFit) {
  for (const uint64_t sequence : {1U, 2U, 3U, 4U}) Push(sequence);  // one is being written, three wait
  EXPECT_FALSE(writer_.HasRoom());
  EXPECT_EQ(writer_.Push(Reply(5)).code(), absl::StatusCode::kResourceExhausted);
  writer_.OnWriteDone(true);
  Push(6);
  for (int i = 0; i < 4; ++i) writer_.OnWriteDone(true);
  EXPECT_EQ(written(), (std::vector<uint64_t>{1, 2, 3, 4, 6}));
  EXPECT_TRUE(writer_.HasRoom());
}

TEST_F(StreamWriterTest, BoundsBytesToo) {
  SimulatedClock clock;
  struct Reactor {
    void StartWrite(const v1::Leaving*) {}
    void Finish(const grpc::Status&) {}
  } reactor;
  StreamWriter<Reactor, v1::Leaving> writer(reactor, clock, {.messages = 100, .bytes = 50});
  v1::Leaving large;
  large.set_reason(std::string(30, 'x'));
  EXPECT_TRUE(writer.Push(large).ok());  // is being written
  EXPECT_TRUE(writer.Push(large).ok());
  EXPECT_EQ(writer.Push(large).code(), absl::StatusCode::kResourceExhausted);
  large.set_reason(std::string(100, 'x'));
  EXPECT_EQ(writer.Push(large).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(StreamWriterTest, EndsAfterWhatWaits) {
  Push(1);
  Push(2);
  writer_.End(absl::AbortedError("replaced"));
  EXPECT_EQ(writer_.Push(Reply(3)).code(), absl::StatusCode::kUnavailable);
  writer_.OnWriteDone(true);
  EXPECT_FALSE(reactor_.finished.has_value());
  writer_.OnWriteDone(true);
  EXPECT_EQ(written(), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(finished(), grpc::StatusCode::ABORTED);
}

TEST_F(StreamWriterTest, AbandonDropsWhatWaits) {
  Push(1);
  Push(2);
  writer_.Abandon(absl::UnavailableError("gone"));
  EXPECT_FALSE(reactor_.finished.has_value());  // not in the middle of a write
  writer_.OnWriteDone(true);
  EXPECT_EQ(written(), std::vector<uint64_t>{1});
  EXPECT_EQ(finished(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(StreamWriterTest, TheFirstEndCounts) {
  writer_.End(absl::OkStatus());
  EXPECT_EQ(finished(), grpc::StatusCode::OK);
  reactor_.finished.reset();
  writer_.Abandon(absl::InternalError("late"));
  EXPECT_FALSE(reactor_.finished.has_value());
}

TEST_F(StreamWriterTest, ABrokenConnectionEndsIt) {
  Push(1);
  Push(2);
  writer_.OnWriteDone(false);
  EXPECT_EQ(written(), std::vector<uint64_t>{1});
  EXPECT_EQ(finished(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(StreamWriterTest, CancelsAWriteThatDoesNotEnd) {
  int cancelled = 0;
  const auto cancel = [&] { ++cancelled; };
  writer_.CancelIfStalled(absl::Seconds(10), cancel);
  Push(1);
  Push(2);
  clock_.Advance(absl::Seconds(9));
  writer_.CancelIfStalled(absl::Seconds(10), cancel);
  EXPECT_EQ(cancelled, 0);
  clock_.Advance(absl::Seconds(1));
  writer_.CancelIfStalled(absl::Seconds(10), cancel);
  EXPECT_EQ(cancelled, 1);
  EXPECT_FALSE(reactor_.finished.has_value());
  writer_.OnWriteDone(false);  // what a cancellation leads to
  EXPECT_EQ(finished(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(StreamWriterTest, DoesNotFinishWhileItIsBeingCancelled) {
  Push(1);
  clock_.Advance(absl::Seconds(10));
  writer_.CancelIfStalled(absl::Seconds(10), [&] {
    writer_.OnWriteDone(false);
    EXPECT_FALSE(reactor_.finished.has_value());
  });
  EXPECT_EQ(finished(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

}  // namespace
}  // namespace stagecoach
