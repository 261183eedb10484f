// What holds for the ucx transport beyond the suite that all transports share: strangers at its port, transports of
// other epochs, what is left behind, what a waiting worker uses.
#include <arpa/inet.h>
#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/named_thread.h"
#include "tests/conformance/transport_conformance.h"
#include "worker/transport/ucx/ucx_endpoint.h"
#include "worker/transport/ucx/ucx_ports.h"
#include "worker/transport/ucx/ucx_transport.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;

TransportFactory Factory(UcxMode mode) { return UcxTransportFactory({.mode = mode}); }

// A connection to a local port; closed at the end.
class Stranger {
 public:
  explicit Stranger(uint16_t port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    pollfd polled = {socket_, POLLOUT, 0};
    is_connected_ = poll(&polled, 1, 300) == 1 && (polled.revents & (POLLERR | POLLHUP)) == 0;
  }
  ~Stranger() { close(socket_); }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  bool is_connected() const { return is_connected_; }
  int descriptor() const { return socket_; }
  void Say(const std::string& bytes) const {
    [[maybe_unused]] const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

 private:
  const int socket_;
  bool is_connected_ = false;
};

// Stands between a UCX worker and another one's port, and keeps what the first says.
class Recorder {
 public:
  explicit Recorder(uint16_t to) : listener_(socket(AF_INET, SOCK_STREAM, 0)), to_(to) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 8), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = NamedThread("recorder", [this] { Forward(); });
  }
  ~Recorder() { close(listener_); }

  uint16_t port() const { return port_; }
  // After both workers have gone.
  std::string Recorded() {
    thread_.Join();
    return recorded_;
  }

 private:
  void Forward() {
    const int from = accept(listener_, nullptr, nullptr);
    const Stranger to(to_);
    std::array<pollfd, 2> polled = {pollfd{from, POLLIN, 0}, pollfd{to.descriptor(), POLLIN, 0}};
    while (poll(polled.data(), polled.size(), 10000) > 0) {
      for (size_t i = 0; i < polled.size(); ++i) {
        if (polled[i].revents == 0) continue;
        char buffer[4096];
        const ssize_t size = read(polled[i].fd, buffer, sizeof(buffer));
        if (size <= 0) {
          close(from);
          return;
        }
        if (i == 0) recorded_.append(buffer, static_cast<size_t>(size));
        [[maybe_unused]] const ssize_t sent = send(polled[1 - i].fd, buffer, static_cast<size_t>(size), MSG_NOSIGNAL);
      }
    }
  }

  const int listener_;
  const uint16_t to_;
  uint16_t port_ = 0;
  std::string recorded_;
  NamedThread thread_;
};

// The same endpoint, but its UCX worker listens elsewhere.
std::string WithPort(const std::string& endpoint, uint16_t from, uint16_t to) {
  UcxEndpoint parsed = *UcxEndpoint::Parse(endpoint);
  const uint16_t old_port = htons(from), new_port = htons(to);
  const std::string old_bytes(reinterpret_cast<const char*>(&old_port), 2);
  const std::string new_bytes(reinterpret_cast<const char*>(&new_port), 2);
  const size_t place = parsed.address.find(old_bytes);
  EXPECT_NE(place, std::string::npos);
  parsed.address.replace(place, 2, new_bytes);
  return parsed.Pack();
}

class UcxPortTest : public testing::Test {
 protected:
  // Two transports, and the port of the first.
  void MakeGroup() {
    UcxPorts ports;
    group_ = std::make_unique<TransportGroup>(Factory(UcxMode::kTcp), 2);
    ports.Find(UcxEndpoint::Parse(group_->peers()[0].endpoint)->address);
    ASSERT_EQ(ports.numbers().size(), 1u);
    port_ = ports.numbers()[0];
  }

  void ConnectAndTransfer() {
    group_->ConnectAll();
    const auto sender = group_->Open(0, TransportGroup::Spec(0, 1));
    const auto receiver = group_->Open(1, TransportGroup::Spec(0, 1));
    ASSERT_TRUE(sender != nullptr && receiver != nullptr);
    const std::vector<std::byte> sent(1 << 20, std::byte{7});
    std::vector<std::byte> received(sent.size());
    const TransferTag tag = TransferTag::Of(v1::CHANNEL_KIND_ACTIVATION, StageIndex(0), MicroBatchIndex(0), Step(1));
    Transfer* recv = *receiver->Recv(tag, received, nullptr);
    Transfer* send = *sender->Send(tag, sent, nullptr);
    EXPECT_EQ(recv->Wait(kLongWait), absl::OkStatus());
    EXPECT_EQ(send->Wait(kLongWait), absl::OkStatus());
    EXPECT_EQ(sent, received);
  }

  std::unique_ptr<TransportGroup> group_;
  uint16_t port_ = 0;
};

TEST_F(UcxPortTest, GarbageAndSilenceDisturbNobody) {
  MakeGroup();
  std::mt19937 random(1);
  std::vector<std::unique_ptr<Stranger>> held;
  for (size_t i = 0; i < 60; ++i) {
    held.push_back(std::make_unique<Stranger>(port_));
    ASSERT_TRUE(held.back()->is_connected());
    std::string bytes(random() % 100000, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (i % 3 == 0) held.back()->Say(bytes);
    if (i % 3 == 1) held.back()->Say(bytes.substr(0, i % 8));  // less than UCX wants to see first
    if (i % 6 == 0) held.back().reset();
  }
  ConnectAndTransfer();
}

// A real session's first bytes, up to all of them, said again to another transport.
TEST_F(UcxPortTest, SessionsSaidAgainDisturbNobody) {
  std::string recorded;
  {
    MakeGroup();
    Recorder recorder(port_);
    const auto zombie = *Factory(UcxMode::kTcp)({JobId("job"), Epoch(2), Incarnation(101)}, WorkerRank(1));
    const std::vector<TransportPeer> peers = {
        {Incarnation(100), WithPort(group_->peers()[0].endpoint, port_, recorder.port())},
        {Incarnation(101), zombie->endpoint()}};
    EXPECT_FALSE(zombie->Connect(peers, absl::Milliseconds(300)).ok());
    zombie->Abort(absl::AbortedError("recorded"));
    group_.reset();
    recorded = recorder.Recorded();
  }
  ASSERT_GT(recorded.size(), 100u);  // UCX's handshake and our hello
  MakeGroup();
  std::vector<std::unique_ptr<Stranger>> held;
  for (size_t size = 1; size <= recorded.size(); size += size < 64 ? 1 : 16) {
    held.push_back(std::make_unique<Stranger>(port_));
    ASSERT_TRUE(held.back()->is_connected());
    held.back()->Say(recorded.substr(0, size));
    if (size % 2 == 0) held.back().reset();
  }
  held.push_back(std::make_unique<Stranger>(port_));
  held.back()->Say(recorded);
  ConnectAndTransfer();
}

TEST_F(UcxPortTest, NobodyConnectsToAConnectedTransport) {
  MakeGroup();
  EXPECT_TRUE(Stranger(port_).is_connected());
  ConnectAndTransfer();
  EXPECT_FALSE(Stranger(port_).is_connected());
}

class UcxTransportTest : public testing::TestWithParam<UcxMode> {};

// A worker of an older epoch whose peer's port is in use again, by the peer's transport of the next epoch.
TEST_P(UcxTransportTest, AnotherEpochsEndpointIsRefusedAndDisturbsNobody) {
  const TransportFactory factory = Factory(GetParam());
  const auto zombie = *factory({JobId("job"), Epoch(2), Incarnation(101)}, WorkerRank(1));
  const std::string old_endpoint = (*factory({JobId("job"), Epoch(2), Incarnation(100)}, WorkerRank(0)))->endpoint();
  TransportGroup group(factory, 2);
  UcxEndpoint reused = *UcxEndpoint::Parse(old_endpoint);
  reused.address = UcxEndpoint::Parse(group.peers()[0].endpoint)->address;
  reused.life_line = UcxEndpoint::Parse(group.peers()[0].endpoint)->life_line;
  const std::vector<TransportPeer> outdated = {{Incarnation(100), reused.Pack()},
                                               {Incarnation(101), zombie->endpoint()}};
  const absl::Status refused = zombie->Connect(outdated, kLongWait);
  EXPECT_EQ(refused.code(), absl::StatusCode::kAborted) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("epoch 2, incarnation 101"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("epoch 3, incarnation 100"));
  group.ConnectAll();
  EXPECT_TRUE(group.Open(0, TransportGroup::Spec(0, 1)) != nullptr);
}

TEST_P(UcxTransportTest, EndpointsThatAreNotRightAreNamed) {
  const TransportFactory factory = Factory(GetParam());
  const auto connect = [&](const std::string& other) {
    const auto self = *factory({JobId("job"), Epoch(2), Incarnation(100)}, WorkerRank(0));
    return self->Connect({{{Incarnation(100), self->endpoint()}, {Incarnation(101), other}}}, kLongWait);
  };
  absl::Status status = connect("in_process/1");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("worker rank 1"));
  const UcxMode other_mode = GetParam() == UcxMode::kTcp ? UcxMode::kShm : UcxMode::kTcp;
  const auto other = *Factory(other_mode)({JobId("job"), Epoch(2), Incarnation(101)}, WorkerRank(1));
  status = connect(other->endpoint());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr(UcxModeText(other_mode)));
}

TEST_P(UcxTransportTest, RouteIsWhatUcxHasChosen) {
  TransportGroup group(Factory(GetParam()), 2);
  group.ConnectAll();
  const std::map<UcxMode, std::string> routes = {
      {UcxMode::kTcp, "tcp"}, {UcxMode::kShm, "sysv"}, {UcxMode::kCma, "sysv+cma"}};
  EXPECT_EQ(group.Open(0, TransportGroup::Spec(0, 1))->route(), routes.at(GetParam()));
  v1::ChannelSpec local = TransportGroup::Spec(0, 5);
  local.set_to_worker_rank(0);
  EXPECT_EQ(group.Open(0, local)->route(), "memcpy");
}

// What a process holds of the machine.
struct Holdings {
  size_t descriptors = 0, threads = 0, segments = 0, resident_kilobytes = 0;
};

size_t CountEntries(const char* directory) {
  size_t count = 0;
  DIR* opened = opendir(directory);
  while (readdir(opened) != nullptr) ++count;
  closedir(opened);
  return count;
}

Holdings Measure() {
  Holdings holdings{.descriptors = CountEntries("/proc/self/fd"), .threads = CountEntries("/proc/self/task")};
  std::ifstream segments("/proc/sysvipc/shm");
  for (std::string line; std::getline(segments, line);) {
    std::istringstream words(line);
    std::string key, id, permissions, size, creator;
    words >> key >> id >> permissions >> size >> creator;
    holdings.segments += creator == absl::StrCat(getpid()) ? 1 : 0;
  }
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  holdings.resident_kilobytes = pages * static_cast<size_t>(sysconf(_SC_PAGESIZE)) / 1024;
  return holdings;
}

void RunEpoch(UcxMode mode) {
  TransportGroup group(Factory(mode), 2);
  group.ConnectAll();
  const auto sender = group.Open(0, TransportGroup::Spec(0, 1));
  const auto receiver = group.Open(1, TransportGroup::Spec(0, 1));
  const std::vector<std::byte> sent(1 << 20, std::byte{7});
  std::vector<std::byte> received(sent.size());
  const TransferTag tag = TransferTag::Of(v1::CHANNEL_KIND_ACTIVATION, StageIndex(0), MicroBatchIndex(0), Step(1));
  Transfer* recv = *receiver->Recv(tag, received, nullptr);
  Transfer* send = *sender->Send(tag, sent, nullptr);
  EXPECT_EQ(recv->Wait(kLongWait), absl::OkStatus());
  EXPECT_EQ(send->Wait(kLongWait), absl::OkStatus());
}

TEST_P(UcxTransportTest, AHundredEpochsLeaveNothing) {
  for (int i = 0; i < 10; ++i) RunEpoch(GetParam());
  const Holdings before = Measure();
  for (int i = 0; i < 100; ++i) RunEpoch(GetParam());
  const Holdings after = Measure();
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_EQ(after.threads, before.threads);
  EXPECT_EQ(after.segments, before.segments);
#if !defined(__SANITIZE_ADDRESS__)  // which keeps what was freed
  EXPECT_LT(after.resident_kilobytes, before.resident_kilobytes + 4096);
#endif
  RecordProperty("resident_kilobytes_before", static_cast<int>(before.resident_kilobytes));
  RecordProperty("resident_kilobytes_after", static_cast<int>(after.resident_kilobytes));
}

TEST_P(UcxTransportTest, AWaitingWorkerUsesNoProcessor) {
  TransportGroup group(Factory(GetParam()), 2);
  group.ConnectAll();
  const auto receiver = group.Open(1, TransportGroup::Spec(0, 1));
  std::vector<std::byte> received(64);
  const TransferTag tag = TransferTag::Of(v1::CHANNEL_KIND_ACTIVATION, StageIndex(0), MicroBatchIndex(0), Step(1));
  Transfer* recv = *receiver->Recv(tag, received, nullptr);
  const auto used = [] {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    return absl::DurationFromTimeval(usage.ru_utime) + absl::DurationFromTimeval(usage.ru_stime);
  };
  const absl::Duration before = used();
  EXPECT_EQ(recv->Wait(absl::Seconds(1)).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_LT(used() - before, absl::Milliseconds(20));
}

INSTANTIATE_TEST_SUITE_P(Modes, UcxTransportTest, testing::Values(UcxMode::kTcp, UcxMode::kShm, UcxMode::kCma),
                         [](const testing::TestParamInfo<UcxMode>& mode) { return UcxModeText(mode.param); });

}  // namespace
}  // namespace stagecoach
