// What happens to a worker whose peer is killed or stopped: at every point it survives, its waits end, nothing of its
// memory is touched after Abort, and a new transport works with a replacement.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/named_thread.h"
#include "tests/conformance/transport_conformance.h"
#include "tests/conformance/transport_pattern.h"
#include "tests/testing/transport/child_process.h"
#include "worker/transport/ucx/ucx_transport.h"

namespace stagecoach {
namespace {

using testing::StartsWith;

constexpr size_t kSmall = 4096;
constexpr size_t kLarge = size_t{256} << 20;  // long enough under way to be interrupted

// From a process's death until who waits for it knows. The kernel ends it first, and the machine may be busy.
constexpr absl::Duration kDeathBound = absl::Seconds(1);
constexpr absl::Duration kDestructionBound = absl::Seconds(1);

const absl::Status kReason = absl::AbortedError("epoch 4 begins");

enum class Role { kSender, kReceiver };  // of the peer
enum class Moment { kBeforeMatch, kDuringCopy };
enum class Fate { kKilled, kStopped };

using Fault = std::tuple<UcxMode, Role, Moment, Fate>;

std::string FaultName(const testing::TestParamInfo<Fault>& info) {
  const auto [mode, role, moment, fate] = info.param;
  return absl::StrCat(UcxModeText(mode), role == Role::kSender ? "_sender" : "_receiver",
                      fate == Fate::kKilled ? "_killed" : "_stopped",
                      moment == Moment::kBeforeMatch ? "_before_match" : "_during_copy");
}

// Rank 0 in this process and rank 1 in another, with a channel from `from_rank` to the other.
class Duo {
 public:
  Duo(UcxMode mode, uint64_t epoch, uint32_t from_rank) {
    auto transport = UcxTransportFactory({.mode = mode})(ProcessFence(0, epoch), WorkerRank(0));
    EXPECT_TRUE(transport.ok()) << transport.status();
    transport_ = *std::move(transport);
    auto child = ChildProcess::Start({STAGECOACH_TRANSPORT_PEER, UcxModeText(mode), "1", absl::StrCat(epoch)});
    EXPECT_TRUE(child.ok()) << child.status();
    child_ = *std::move(child);
    const std::string other = Answer();
    const std::vector<TransportPeer> peers = {{ProcessFence(0, epoch).incarnation, transport_->endpoint()},
                                              {ProcessFence(1, epoch).incarnation, FromHex(other)}};
    Say(absl::StrCat("connect ", ToHex(transport_->endpoint()), " ", other));
    EXPECT_EQ(transport_->Connect(peers, kLongWait), absl::OkStatus());
    EXPECT_EQ(Answer(), "ok");
    Command(absl::StrCat("open ", from_rank, " ", 1 - from_rank));
    auto channel = transport_->Open(ProcessChannel(from_rank, 1 - from_rank));
    EXPECT_TRUE(channel.ok()) << channel.status();
    channel_ = *std::move(channel);
  }

  void Say(const std::string& line) { EXPECT_EQ(child_->WriteLine(line), absl::OkStatus()); }
  std::string Answer() {
    absl::StatusOr<std::string> line = child_->ReadLine(kLongWait);
    return line.ok() ? *line : line.status().ToString();
  }
  void Command(const std::string& line) {
    Say(line);
    EXPECT_EQ(Answer(), "ok");
  }

  Transport& transport() { return *transport_; }
  Channel& channel() { return *channel_; }
  ChildProcess& child() { return *child_; }
  void DestroyTransport() {
    channel_.reset();
    transport_.reset();
  }

 private:
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Channel> channel_;
  std::unique_ptr<ChildProcess> child_;
};

class TransportProcessTest : public testing::TestWithParam<Fault> {
 protected:
  // Brings the pair to the moment, with this worker's transfer posted.
  Transfer* Reach(Duo& duo, std::vector<std::byte>& buffer) {
    const bool peer_sends = role_ == Role::kSender;
    auto posted = peer_sends ? duo.channel().Recv(ProcessTag(0), buffer, nullptr)
                             : duo.channel().Send(ProcessTag(0), buffer, nullptr);
    EXPECT_TRUE(posted.ok()) << posted.status();
    if (moment_ == Moment::kDuringCopy) {
      duo.Command(absl::StrCat(peer_sends ? "send " : "recv ", buffer.size()));
      if (peer_sends) {
        WaitForFirstByte(buffer);
      } else {
        duo.Command("begun");
      }
    }
    return *posted;
  }

  // What is read out of the peer's memory comes although it is stopped.
  bool NeedsThePeer() const {
    return mode_ != UcxMode::kCma || role_ != Role::kSender || moment_ != Moment::kDuringCopy;
  }

  std::vector<std::byte> MakeBuffer() const {
    const size_t bytes = moment_ == Moment::kDuringCopy ? kLarge : kSmall;
    return role_ == Role::kSender ? std::vector<std::byte>(bytes) : TransferPattern(bytes, 0);
  }

  void ReplacementWorks() {
    const bool peer_sends = role_ == Role::kSender;
    Duo duo(mode_, 4, peer_sends ? 1 : 0);
    std::vector<std::byte> buffer = peer_sends ? std::vector<std::byte>(kSmall) : TransferPattern(kSmall, 0);
    duo.Command(absl::StrCat(peer_sends ? "send " : "recv ", kSmall));
    auto posted = peer_sends ? duo.channel().Recv(ProcessTag(0), buffer, nullptr)
                             : duo.channel().Send(ProcessTag(0), buffer, nullptr);
    ASSERT_TRUE(posted.ok()) << posted.status();
    EXPECT_EQ((*posted)->Wait(kLongWait), absl::OkStatus());
    duo.Command("wait");
    EXPECT_EQ(buffer, TransferPattern(kSmall, 0));
  }

  const UcxMode mode_ = std::get<0>(GetParam());
  const Role role_ = std::get<1>(GetParam());
  const Moment moment_ = std::get<2>(GetParam());
  const Fate fate_ = std::get<3>(GetParam());
};

TEST_P(TransportProcessTest, ThePeerGoesAndThisWorkerGoesOn) {
  Duo duo(mode_, 3, role_ == Role::kSender ? 1 : 0);
  std::vector<std::byte> buffer = MakeBuffer();
  Transfer* transfer = Reach(duo, buffer);
  absl::Status waited;
  std::atomic<bool> ended{false};
  NamedThread waiting("waiting", [&] {
    waited = transfer->Wait(kLongWait);
    ended.store(true);
  });
  const absl::Duration start = Clock::Real().Now();
  duo.child().Signal(fate_ == Fate::kKilled ? SIGKILL : SIGSTOP);
  if (fate_ == Fate::kKilled) {
    waiting.Join();
    EXPECT_LT(Clock::Real().Now() - start, kDeathBound);
    EXPECT_EQ(waited.code(), absl::StatusCode::kUnavailable) << waited;
    EXPECT_THAT(std::string(waited.message()), StartsWith("worker rank 1 is gone"));
  } else {
    if (NeedsThePeer()) {
      // Nobody but the coordinator says that a silent peer is lost.
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      EXPECT_FALSE(ended.load());
    } else {
      waiting.Join();
      EXPECT_EQ(buffer, TransferPattern(buffer.size(), 0));
    }
    const absl::Duration aborted = Clock::Real().Now();
    duo.transport().Abort(kReason);
    EXPECT_LT(Clock::Real().Now() - aborted, kAbortBound);
    waiting.Join();
    EXPECT_EQ(waited, NeedsThePeer() ? kReason : absl::OkStatus());
    // What the peer does when it goes on reaches neither a buffer that it was sending to nor one that it was sent.
    buffer.assign(buffer.size(), std::byte{0});
  }
  const absl::Duration destroyed = Clock::Real().Now();
  duo.DestroyTransport();
  EXPECT_LT(Clock::Real().Now() - destroyed, kDestructionBound);
  ReplacementWorks();
  if (fate_ == Fate::kKilled) return;
  duo.child().Signal(SIGCONT);
  const std::string meet = role_ == Role::kSender ? "send_and_wait 4096" : "recv_and_wait 4096";
  duo.Say(moment_ == Moment::kBeforeMatch ? meet : "wait");
  std::string answer = duo.Answer();
  if (role_ == Role::kSender && moment_ == Moment::kBeforeMatch && answer == "ok") {
    // It saw the receive that was posted before it saw that this worker has gone. The next one it cannot see.
    duo.Say(meet);
    answer = duo.Answer();
  }
  EXPECT_THAT(answer, StartsWith(NeedsThePeer() ? "error UNAVAILABLE" : "ok"));
  EXPECT_EQ(buffer, std::vector<std::byte>(buffer.size()));
}

INSTANTIATE_TEST_SUITE_P(Faults, TransportProcessTest,
                         testing::Combine(testing::Values(UcxMode::kTcp, UcxMode::kShm, UcxMode::kCma),
                                          testing::Values(Role::kSender, Role::kReceiver),
                                          testing::Values(Moment::kBeforeMatch, Moment::kDuringCopy),
                                          testing::Values(Fate::kKilled, Fate::kStopped)),
                         FaultName);

}  // namespace
}  // namespace stagecoach
