// Peers that connect and send nothing, garbage, half of something, too much, or are very many: a worker and a client
// that are there at the same time notice nothing.

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/service/testing/grpc_worker.h"
#include "coordinator/service/testing/service_harness.h"
#include "tests/testing/coordinator/coordinator_process.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;

using Seconds = std::chrono::duration<double>;

// A connection whose other end need not like it.
class Connection {
 public:
  explicit Connection(const ListenAddress& address) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(address.port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0;
  }
  ~Connection() {
    if (fd_ >= 0) close(fd_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool connected() const { return connected_; }
  // Sends until all is sent, the other end has had enough, or it takes nothing for a second.
  void Send(const std::string& bytes) const {
    size_t sent = 0;
    while (sent < bytes.size()) {
      pollfd ready{.fd = fd_, .events = POLLOUT, .revents = 0};
      if (poll(&ready, 1, 1000) != 1) return;
      const ssize_t now = send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (now <= 0) return;
      sent += static_cast<size_t>(now);
    }
  }
  // Takes what comes for a while, and drops it.
  void Drain(std::chrono::milliseconds time) const {
    std::string bytes(1 << 16, '\0');
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) {
      pollfd ready{.fd = fd_, .events = POLLIN, .revents = 0};
      if (poll(&ready, 1, 10) == 1 && recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT) <= 0) return;
    }
  }

 private:
  const int fd_;
  bool connected_ = false;
};

// HTTP/2

std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, const std::string& payload) {
  std::string frame;
  for (const int shift : {16, 8, 0}) frame += static_cast<char>(payload.size() >> shift & 0xff);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  for (const int shift : {24, 16, 8, 0}) frame += static_cast<char>(stream >> shift & 0xff);
  return frame + payload;
}

const std::string kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
std::string Settings() { return Frame(4, 0, 0, ""); }

std::string Header(const std::string& name, const std::string& value) {
  std::string header(1, '\0');  // as it is, and not to be remembered
  for (const std::string& text : {name, value}) header += static_cast<char>(text.size()) + text;
  return header;
}

// A call that gRPC accepts.
std::string CallHeaders(const std::string& method) {
  return Frame(1, 4, 1,
               Header(":method", "POST") + Header(":scheme", "http") + Header(":path", method) +
                   Header(":authority", "x") + Header("te", "trailers") + Header("content-type", "application/grpc"));
}

const std::string kSession = "/stagecoach.v1.WorkerService/Session";
const std::string kSubmit = "/stagecoach.v1.CoordinatorService/SubmitJob";

std::string RandomBytes(size_t number, uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes(number, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// A worker and a client with nothing to hide. Says how long the slowest answer took.
class HonestPeers {
 public:
  explicit HonestPeers(const CoordinatorProcess& process)
      : worker_(process.Dial(), std::make_unique<FakeWorker>("honest", Incarnation(1)),
                [this](const v1::CoordinatorMessage& message, const auto&) {
                  if (message.has_welcome()) welcome_ = true;
                  if (message.has_heartbeat_reply()) answered_ = message.heartbeat_reply().sequence();
                }),
        client_(v1::CoordinatorService::NewStub(process.Dial())),
        thread_("honest peers", [this] { Loop(); }) {
    while (!served_ && healthy_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  // False: one was not served.
  bool Stop() {
    stopping_ = true;
    thread_.Join();
    return healthy_;
  }
  Seconds slowest() const { return slowest_; }

 private:
  void Loop() {
    while (!welcome_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (uint64_t i = 1; !stopping_ && healthy_; ++i) {
      const auto start = std::chrono::steady_clock::now();
      healthy_ = worker_.SendHeartbeat(i) && Ask();
      while (healthy_ && answered_ < i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (std::chrono::steady_clock::now() - start > std::chrono::seconds(10)) healthy_ = false;
      }
      served_ = true;
      slowest_ = std::max<Seconds>(slowest_, std::chrono::steady_clock::now() - start);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  bool Ask() {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::ListWorkersResponse response;
    if (!client_->ListWorkers(&context, {}, &response).ok()) return false;
    return std::any_of(response.workers().begin(), response.workers().end(), [](const auto& worker) {
      return worker.name() == "honest" && worker.state() == v1::WORKER_STATE_IDLE;
    });
  }

  std::atomic<bool> welcome_ = false;
  std::atomic<uint64_t> answered_ = 0;
  std::atomic<bool> served_ = false;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> healthy_ = true;
  Seconds slowest_{0};
  GrpcWorker worker_;
  const std::unique_ptr<v1::CoordinatorService::Stub> client_;
  NamedThread thread_;  // last: uses the members above
};

class HostilePeersTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(process_.WaitUntilItServes()) << process_.Log(); }

  // Runs `attack` while the honest peers are served.
  template <typename Attack>
  void Attacked(Attack attack) {
    HonestPeers honest(process_);
    attack();
    EXPECT_TRUE(honest.Stop()) << process_.Log();
    // A second is what a lease of three forgives.
    EXPECT_LT(honest.slowest().count(), 1.0);
  }

  // What the attackers took is given back, and not only for a moment between two of them that are still let in and out.
  void ExpectDescriptors(size_t number) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    size_t last = 0;
    for (int in_a_row = 0; in_a_row < 20 && std::chrono::steady_clock::now() < deadline;) {
      last = process_.NumDescriptors();
      in_a_row = last <= number ? in_a_row + 1 : 0;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_LE(last, number);
  }

  TemporaryDirectory directory_;
  CoordinatorProcess process_{STAGECOACH_COORDINATOR_BINARY,
                              directory_.path(),
                              {"--state-dir", directory_.Path("state"), "--listen", "127.0.0.1:0"}};
};

TEST_F(HostilePeersTest, GarbageOfManyKindsDisturbsNobody) {
  const std::vector<std::string> openings = {
      "",
      "\n",
      "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
      RandomBytes(1000, 1),
      std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + RandomBytes(500, 2),  // a TLS hello
      kPreface.substr(0, 12),
      kPreface,
      kPreface + Settings().substr(0, 5),
      kPreface + RandomBytes(5000, 3),
      kPreface + Settings() + RandomBytes(5000, 4),
      kPreface + Settings() + Frame(1, 4, 1, RandomBytes(300, 5)),  // HPACK of chance
      kPreface + Settings() + CallHeaders(kSession),                // and no Hello
      kPreface + Settings() + CallHeaders(kSession) + Frame(0, 0, 1, RandomBytes(100, 6)),
      kPreface + Settings() + CallHeaders(kSession) + Frame(0, 1, 1, std::string("\0\0\0\0\3abc", 8)),
      kPreface + Settings() + CallHeaders(kSubmit) + Frame(0, 1, 1, std::string("\0\0\0\0\3abc", 8)),
      kPreface + Settings() + CallHeaders("/stagecoach.v1.WorkerService/NoSuchMethod"),
      kPreface + Settings() + CallHeaders("/"),
  };
  Attacked([&] {
    std::vector<std::unique_ptr<Connection>> connections;
    for (int round = 0; round < 5; ++round) {
      for (const std::string& opening : openings) {
        connections.push_back(std::make_unique<Connection>(process_.address()));
        connections.back()->Send(opening);
      }
    }
    for (const auto& connection : connections) connection->Drain(std::chrono::milliseconds(5));
  });
}

TEST_F(HostilePeersTest, AThousandConnectionsDisturbNobodyAndLeaveNothing) {
  const size_t before = process_.NumDescriptors();
  Attacked([&] {
    std::vector<std::unique_ptr<Connection>> connections;
    for (int i = 0; i < 1000; ++i) {
      connections.push_back(std::make_unique<Connection>(process_.address()));
      ASSERT_TRUE(connections.back()->connected()) << i;
      if (i % 2 == 0) connections.back()->Send(kPreface + Settings());
    }
  });
  ExpectDescriptors(before);
}

TEST_F(HostilePeersTest, WithoutDescriptorsForAllItServesThoseItHasAndRecovers) {
  const size_t before = process_.NumDescriptors();
  const rlimit limit{.rlim_cur = 200, .rlim_max = 200};
  ASSERT_EQ(prlimit(process_.pid(), RLIMIT_NOFILE, &limit, nullptr), 0);
  Attacked([&] {
    std::vector<std::unique_ptr<Connection>> connections;
    for (int i = 0; i < 400; ++i) connections.push_back(std::make_unique<Connection>(process_.address()));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  });
  ExpectDescriptors(before);
  Attacked([] {});  // new ones get in again
}

// Sends one message of so many bytes to a method, as gRPC does. What came of it.
grpc::Status SendBytes(const std::shared_ptr<grpc::Channel>& channel, const std::string& method, size_t bytes) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  SetDeadline(context);
  grpc::CompletionQueue queue;
  void* tag = nullptr;
  bool ok = false;
  const auto call = stub.PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  queue.Next(&tag, &ok);
  const std::string part(1 << 20, '\0');
  const std::vector<grpc::Slice> slices(bytes >> 20, grpc::Slice(part));
  call->WriteLast(grpc::ByteBuffer(slices.data(), slices.size()), {}, nullptr);
  queue.Next(&tag, &ok);
  grpc::Status status;
  call->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  return status;
}

// Every message is legal. The coordinator's thread takes turns, and what waits for it is bounded.
TEST_F(HostilePeersTest, AWorkerThatNeverStopsTalkingIsHeardSlowly) {
  const uint64_t before = process_.ResidentBytes();
  v1::WorkerMessage lines;
  lines.mutable_fence()->set_incarnation(1);
  lines.mutable_fence()->set_job("nobody's");
  for (int i = 0; i < 200; ++i) lines.mutable_log_lines()->add_lines()->set_text(std::string(4000, 'x'));
  uint64_t most = 0;
  Attacked([&] {
    GrpcWorker chatty(process_.Dial(), std::make_unique<FakeWorker>("chatty", Incarnation(1)));
    for (uint64_t i = 1; i <= 400; ++i) {
      ASSERT_TRUE(chatty.Say(lines) && chatty.SendHeartbeat(i));
      most = std::max(most, process_.ResidentBytes());
    }
  });
  // Of 320 MB in all. On a busy machine the transport reads further ahead of the coordinator's thread.
  EXPECT_LT(most, before + (uint64_t{128} << 20));
}

// Of bytes that are no message, so that taking it is another error than refusing it for its size.
TEST_F(HostilePeersTest, TheLimitOfAMessageIsTold) {
  for (const std::string& method : {kSession, kSubmit}) {
    const grpc::Status at_limit = SendBytes(process_.Dial(), method, size_t{64} << 20);
    EXPECT_NE(at_limit.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << at_limit.error_message();
    EXPECT_FALSE(at_limit.ok());
    const grpc::Status above = SendBytes(process_.Dial(), method, size_t{65} << 20);
    EXPECT_EQ(above.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_THAT(above.error_message(), HasSubstr("67108864"));
  }
}

// gRPC refuses it when it has come whole; other calls go on meanwhile.
TEST_F(HostilePeersTest, AHugeMessageIsRefused) {
  for (const std::string& method : {kSession, kSubmit}) {
    Attacked([&] {
      EXPECT_EQ(SendBytes(process_.Dial(), method, size_t{256} << 20).error_code(),
                grpc::StatusCode::RESOURCE_EXHAUSTED);
    });
  }
}

}  // namespace
}  // namespace stagecoach
