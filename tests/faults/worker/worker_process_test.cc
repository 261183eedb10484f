// The worker's process: its command line, its signals, and a coordinator that comes, goes, refuses and talks nonsense.
#include "tests/faults/worker/worker_process.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/build_version.h"
#include "common/host_memory_size.h"
#include "common/protocol_version.h"
#include "tests/testing/health/health_probe.h"
#include "tests/testing/temporary_directory.h"
#include "tests/testing/worker_service/scripted_coordinator.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr absl::Duration kTimeout = absl::Seconds(20);  // never reached by a passing test

class WorkerProcessTest : public testing::Test {
 protected:
  void StartCoordinator() { coordinator_ = std::make_unique<ScriptedCoordinator>(address_); }
  void StartWorker(std::vector<std::string> options = {}) {
    options.insert(options.begin(), {"--coordinator", address_});
    worker_ = std::make_unique<WorkerProcess>(options);
  }
  // The next message, heartbeats left out.
  v1::WorkerMessage Receive() {
    while (true) {
      const absl::StatusOr<v1::WorkerMessage> message = stream_->Receive(kTimeout);
      EXPECT_TRUE(message.ok()) << message.status();
      if (!message.ok()) return {};
      if (!message->has_heartbeat()) return *message;
    }
  }
  v1::WorkerMessage AcceptHello() {
    const auto stream = coordinator_->Accept(kTimeout);
    EXPECT_TRUE(stream.ok()) << "the worker does not dial";
    if (!stream.ok()) return {};
    stream_ = *stream;
    v1::WorkerMessage message = Receive();
    EXPECT_TRUE(message.has_hello()) << message.ShortDebugString();
    incarnation_ = message.fence().incarnation();
    return message;
  }
  void Send(v1::CoordinatorMessage message) {
    message.mutable_fence()->set_incarnation(incarnation_);
    message.mutable_fence()->set_coordinator_term(1);
    EXPECT_TRUE(stream_->Send(std::move(message)).ok());
  }
  void Welcome() {
    v1::CoordinatorMessage message;
    message.mutable_welcome()->mutable_lease()->set_seconds(1);
    message.mutable_welcome()->mutable_heartbeat_interval()->set_nanos(50'000'000);
    Send(message);
    EXPECT_TRUE(stream_->Receive(kTimeout)->has_heartbeat());  // so it has taken it
  }
  // A worker that has been welcomed.
  void StartAll(const std::vector<std::string>& options = {}) {
    StartCoordinator();
    StartWorker(options);
    AcceptHello();
    Welcome();
  }

  const TemporaryDirectory directory_;
  const std::string address_ = absl::StrCat("unix:", directory_.path(), "/socket");
  std::unique_ptr<ScriptedCoordinator> coordinator_;
  std::unique_ptr<WorkerProcess> worker_;
  std::shared_ptr<ScriptedStream> stream_;
  uint64_t incarnation_ = 0;
};

TEST_F(WorkerProcessTest, SaysWhoItIs) {
  StartCoordinator();
  StartWorker({"--name", "worker-7", "--threads", "3", "--memory", "64MiB"});
  const v1::WorkerMessage message = AcceptHello();
  EXPECT_NE(message.fence().incarnation(), 0u);
  EXPECT_EQ(message.hello().worker(), "worker-7");
  EXPECT_EQ(message.hello().device(), "cpu");
  EXPECT_THAT(message.hello().numerics_class(), StartsWith("cpu/"));
  EXPECT_EQ(message.hello().max_threads(), 3u);
  EXPECT_EQ(message.hello().memory_bytes(), 64u << 20);
  EXPECT_EQ(message.hello().protocol_version(), kProtocolVersion);
  EXPECT_EQ(message.hello().build_version(), BuildVersion());
  EXPECT_EQ(message.hello().pid(), static_cast<uint64_t>(worker_->pid()));
  EXPECT_FALSE(message.hello().host().empty());
  EXPECT_FALSE(message.hello().has_held());
}

TEST_F(WorkerProcessTest, SaysWhenItIsSimulated) {
  StartCoordinator();
  StartWorker({"--device", "simulated", "--simulated-block-seconds", "0.02,0.02,0.02"});
  const v1::WorkerMessage message = AcceptHello();
  EXPECT_EQ(message.hello().device(), "simulated");
  EXPECT_THAT(message.hello().numerics_class(), StartsWith("simulated/cpu/"));
  EXPECT_THAT(worker_->Log(), HasSubstr("device simulated (simulated/cpu/"));
}

TEST_F(WorkerProcessTest, IsReadyWhileItIsInSession) {
  StartCoordinator();
  StartWorker({"--health-listen", "127.0.0.1:0"});
  AcceptHello();
  const std::string begin = "health at ";
  while (worker_->Log().find(begin) == std::string::npos) std::this_thread::yield();
  const std::string rest = worker_->Log().substr(worker_->Log().find(begin) + begin.size());
  const std::string health = rest.substr(0, rest.find('\n'));
  EXPECT_EQ(AskHealth(health, ""), "NOT_SERVING");
  EXPECT_EQ(AskHealth(health, "live"), "SERVING");
  Welcome();
  EXPECT_TRUE(HealthBecomes(health, "", "SERVING"));
  stream_->End(absl::UnavailableError("the coordinator stops"));
  EXPECT_TRUE(HealthBecomes(health, "", "NOT_SERVING"));
  EXPECT_EQ(AskHealth(health, "live"), "SERVING");
}

TEST_F(WorkerProcessTest, RefusesToServeMetricsAndHealthToOthers) {
  for (const char* option : {"--metrics-listen", "--health-listen"}) {
    StartWorker({option, "0.0.0.0:0"});
    EXPECT_EQ(worker_->WaitForExit(), 2);
    EXPECT_THAT(worker_->Log(), HasSubstr(absl::StrCat(option, ": refusing to serve")));
  }
}

TEST_F(WorkerProcessTest, WithoutANameTakesOneThatNobodyHas) {
  StartCoordinator();
  StartWorker({"--device", "reference"});
  const v1::WorkerMessage first = AcceptHello();
  EXPECT_EQ(first.hello().numerics_class(), "reference f64");
  StartWorker();
  const v1::WorkerMessage second = AcceptHello();
  EXPECT_THAT(first.hello().worker(), StartsWith(first.hello().host() + "-"));
  EXPECT_NE(first.hello().worker(), second.hello().worker());
  EXPECT_NE(first.fence().incarnation(), second.fence().incarnation());
}

TEST_F(WorkerProcessTest, TakesTheAddressFromTheEnvironment) {
  StartCoordinator();
  worker_ = std::make_unique<WorkerProcess>(std::vector<std::string>{},
                                            std::vector<std::string>{absl::StrCat("STAGECOACH_ADDRESS=", address_)});
  AcceptHello();
}

TEST_F(WorkerProcessTest, LeavesWhenItIsDismissed) {
  for (const auto& [signal, name] : {std::pair(SIGTERM, "SIGTERM"), std::pair(SIGINT, "SIGINT")}) {
    StartAll();
    worker_->Signal(signal);
    EXPECT_EQ(Receive().leaving().reason(), name);
    v1::CoordinatorMessage dismiss;
    dismiss.mutable_dismiss();
    Send(dismiss);
    EXPECT_EQ(worker_->WaitForExit(), 0);
    coordinator_->Stop();
  }
}

TEST_F(WorkerProcessTest, LeavesWithoutADismissalWhenItTakesTooLong) {
  StartAll({"--leave-timeout", "200ms"});
  worker_->Signal(SIGTERM);
  EXPECT_TRUE(Receive().has_leaving());
  EXPECT_EQ(worker_->WaitForExit(), 0);
}

TEST_F(WorkerProcessTest, ASecondSignalEndsItAtOnce) {
  StartAll();
  worker_->Signal(SIGTERM);
  EXPECT_TRUE(Receive().has_leaving());
  worker_->Signal(SIGTERM);
  EXPECT_EQ(worker_->WaitForExit(), 128 + SIGTERM);
}

TEST_F(WorkerProcessTest, LeavesAtOnceWhenNobodyIsThere) {
  StartWorker();
  while (worker_->Log().find("no session") == std::string::npos) std::this_thread::yield();
  worker_->Signal(SIGTERM);
  EXPECT_EQ(worker_->WaitForExit(), 0);
}

TEST_F(WorkerProcessTest, DialsUntilSomebodyIsThereAndAgainAfterThat) {
  StartWorker();
  while (worker_->Log().find("no session") == std::string::npos) std::this_thread::yield();
  StartCoordinator();
  AcceptHello();
  Welcome();
  const uint64_t incarnation = incarnation_;
  for (int i = 0; i < 3; ++i) {
    coordinator_->Stop();
    StartCoordinator();
    AcceptHello();
    Welcome();
    EXPECT_EQ(incarnation_, incarnation);
  }
}

TEST_F(WorkerProcessTest, GivesUpWhenToldTo) {
  StartWorker({"--dial-timeout", "300ms"});
  EXPECT_EQ(worker_->WaitForExit(), 1);
  EXPECT_THAT(worker_->Log(), HasSubstr("no session with the coordinator for 300ms"));
}

TEST_F(WorkerProcessTest, EndsWhenItsProtocolIsRefused) {
  StartCoordinator();
  StartWorker();
  AcceptHello();
  stream_->End(absl::FailedPreconditionError("this coordinator speaks protocol version 9"));
  EXPECT_EQ(worker_->WaitForExit(), 1);
  EXPECT_THAT(worker_->Log(), HasSubstr("this coordinator speaks protocol version 9"));
}

TEST_F(WorkerProcessTest, EndsWhenANewerProcessHasItsName) {
  StartAll();
  stream_->End(absl::AbortedError("worker w has a newer incarnation"));
  EXPECT_EQ(worker_->WaitForExit(), 1);
  EXPECT_THAT(worker_->Log(), HasSubstr("worker w has a newer incarnation"));
}

TEST_F(WorkerProcessTest, ReturnsFromAStopLongerThanItsLease) {
  StartAll();
  worker_->Signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  const std::shared_ptr<ScriptedStream> before = stream_;
  worker_->Signal(SIGCONT);
  AcceptHello();
  while (before->Receive(kTimeout).ok()) {
  }
  Welcome();
}

TEST_F(WorkerProcessTest, WaitsPassivelyUnlessTheUserWantsOtherwise) {
  StartAll();
  EXPECT_THAT(worker_->ReadProc("environ"), HasSubstr("OMP_WAIT_POLICY=passive"));
  EXPECT_EQ(worker_->ReadProc("comm"), "stagecoach-work\n");
  worker_ = std::make_unique<WorkerProcess>(std::vector<std::string>{"--coordinator", address_},
                                            std::vector<std::string>{"OMP_WAIT_POLICY=active"});
  AcceptHello();
  EXPECT_THAT(worker_->ReadProc("environ"), HasSubstr("OMP_WAIT_POLICY=active"));
}

// What is free now is taken by others now.
TEST_F(WorkerProcessTest, AMemoryLimitAboveWhatIsFreeIsAWarning) {
  StartCoordinator();
  StartWorker({"--memory", absl::StrCat(InstalledMemoryBytes())});
  EXPECT_EQ(AcceptHello().hello().memory_bytes(), InstalledMemoryBytes());
  EXPECT_THAT(worker_->Log(),
              HasSubstr(absl::StrCat("the worker is given ", InstalledMemoryBytes(), " bytes, but of")));
}

TEST_F(WorkerProcessTest, WithoutAMemoryLimitItIsWhatIsFree) {
  StartCoordinator();
  StartWorker();
  const uint64_t memory = AcceptHello().hello().memory_bytes();
  EXPECT_GT(memory, uint64_t{1} << 20);
  EXPECT_LT(memory, InstalledMemoryBytes());
  EXPECT_THAT(worker_->Log(), testing::Not(HasSubstr("the worker is given")));
}

TEST_F(WorkerProcessTest, InsecureLetsItUseOtherNetworks) {
  WorkerProcess worker(
      {"--coordinator", "0.0.0.0:1", "--insecure", "--network-devices", "all", "--dial-timeout", "1ms"});
  EXPECT_EQ(worker.WaitForExit(), 1);
  EXPECT_THAT(worker.Log(), HasSubstr("dialling 0.0.0.0:1"));
}

TEST_F(WorkerProcessTest, RefusesABadCommandLine) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> bad = {
      {{}, "--coordinator is required"},
      {{"--coordinator", "nowhere"}, "has no port"},
      {{"--coordinator", "127.0.0.1:1", "--name", "a b"}, "expected letters, digits"},
      {{"--coordinator", "127.0.0.1:1", "--name", ""}, "expected letters, digits"},
      {{"--coordinator", "127.0.0.1:1", "--device", "abacus"}, "no device \"abacus\""},
      {{"--coordinator", "127.0.0.1:1", "--device", "simulated"}, "simulated needs --simulated-block-seconds"},
      {{"--coordinator", "127.0.0.1:1", "--device", "simulated", "--simulated-block-seconds", "1,nan,1"},
       "\"nan\" is no time from 0 to 3600 seconds"},
      {{"--coordinator", "127.0.0.1:1", "--simulated-block-seconds", "1,1,1"}, "and the device is cpu"},
      {{"--coordinator", "127.0.0.1:1", "--transport", "pigeon"}, "no transport \"pigeon\""},
      {{"--coordinator", "127.0.0.1:1", "--threads", "0"}, "--threads"},
      {{"--coordinator", "127.0.0.1:1", "--memory", "much"}, "--memory"},
      {{"--coordinator", "127.0.0.1:1", "--memory", "4000TiB"}, "but device cpu has"},
      {{"--coordinator", "127.0.0.1:1", "--memory", absl::StrCat(InstalledMemoryBytes() + 1)},
       absl::StrCat("but device cpu has ", InstalledMemoryBytes())},
      {{"--coordinator", "127.0.0.1:1", "--leave-timeout", "-1s"}, "expected a duration"},
      {{"--coordinator", "10.0.0.5:7070"}, "refusing to dial 10.0.0.5:7070"},
      {{"--coordinator", "0.0.0.0:7070"}, "refusing to dial 0.0.0.0:7070"},
      {{"--coordinator", "[::ffff:10.0.0.1]:7070"}, "--insecure"},
      {{"--coordinator", "coordinator.example:7070"}, "--insecure"},
      {{"--coordinator", "127.0.0.1:1", "--network-devices", "eth0"}, "refusing to receive tensors at eth0"},
      {{"--coordinator", "127.0.0.1:1", "--network-devices", "lo,eth0"}, "--insecure"},
      {{"--coordinator", "127.0.0.1:1", "--network-devices", "all"}, "--insecure"},
      {{"--coordinator", "127.0.0.1:1", "--log-level", "loud"}, "--log-level"},
      {{"--coordinator", "127.0.0.1:1", "surplus"}, "surplus"},
  };
  for (const auto& [arguments, why] : bad) {
    WorkerProcess worker(arguments);
    EXPECT_EQ(worker.WaitForExit(), 2) << why;
    EXPECT_THAT(worker.Log(), HasSubstr(why));
  }
}

// Whoever answers at a wrong address.
TEST_F(WorkerProcessTest, SurvivesPeersThatTalkNonsense) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(name);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&name), size), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&name), &size), 0);
  ASSERT_EQ(listen(listener, 16), 0);
  worker_ = std::make_unique<WorkerProcess>(
      std::vector<std::string>{"--coordinator", absl::StrCat("127.0.0.1:", ntohs(name.sin_port))});
  const std::string http2_then_noise = std::string("\0\0\0\4\0\0\0\0\0", 9) + std::string(100, '\xff');
  for (const std::string& text : {std::string("HTTP/1.1 200 OK\r\n\r\n"), std::string(10000, '\0'), http2_then_noise}) {
    const int connection = accept(listener, nullptr, nullptr);
    ASSERT_GE(connection, 0);
    EXPECT_EQ(send(connection, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
    close(connection);
  }
  worker_->Signal(SIGTERM);
  EXPECT_EQ(worker_->WaitForExit(), 0);
  close(listener);
}

}  // namespace
}  // namespace stagecoach
