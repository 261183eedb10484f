#include "client/cluster/local_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/contexts/private_file.h"
#include "client/coordinator_client/testing/fake_coordinator_service.h"
#include "common/file_system.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr absl::Duration kPatience = absl::Seconds(30);

// The programs are scripts: the coordinator says that it serves at the fake's address, and each prints its pid, with
// which the test then registers the worker.
class LocalClusterTest : public testing::Test {
 protected:
  LocalClusterTest() {
    WriteProgram("stagecoach-coordinator", absl::StrCat("echo $$ \"$@\"; echo ", service_.address(),
                                                        " > \"$4.new\"; mv \"$4.new\" \"$4\"; exec sleep 1000"));
    WriteProgram("stagecoach-worker", "echo $$ \"$@\"; exec sleep 1000");
    EXPECT_TRUE(MakePrivateDirectory(options_.state_dir).ok());
  }
  void WriteProgram(const std::string& name, const std::string& script) {
    const std::string path = options_.programs + "/" + name;
    EXPECT_TRUE(WritePrivateFile(path, "#!/bin/sh\n" + script + "\n").ok());
    chmod(path.c_str(), 0700);
  }
  // What a program printed at each of its starts, without the pid.
  std::vector<std::string> Starts(const std::string& name) {
    const auto log = ReadFile(FileSystem::Posix(), options_.state_dir + "/logs/" + name + ".log", 1 << 20);
    return log.ok() ? absl::StrSplit(*log, '\n', absl::SkipEmpty()) : std::vector<std::string>();
  }
  uint64_t NewestPid(const std::string& name) {
    uint64_t pid = 0;
    const std::vector<std::string> starts = Starts(name);
    const std::string first = starts.empty() ? "0" : starts.back().substr(0, starts.back().find(' '));
    EXPECT_TRUE(absl::SimpleAtoi(first, &pid)) << first;
    return pid;
  }
  // Called while the cluster waits: what the workers themselves would do.
  bool RegisterWorkers() {
    for (const char* name : {"worker-0", "worker-1"}) {
      v1::WorkerDescription worker;
      worker.set_name(name);
      worker.set_pid(NewestPid(name));
      worker.set_state(v1::WORKER_STATE_IDLE);
      if (worker.pid() != 0) service_.PutWorker(worker);
    }
    return true;
  }
  absl::StatusOr<std::unique_ptr<LocalCluster>> Start(absl::Duration timeout = kPatience) {
    return LocalCluster::Start(options_, timeout, [this] { return RegisterWorkers(); });
  }

  const TemporaryDirectory directory_;
  FakeCoordinatorService service_;
  LocalCluster::Options options_ = {
      .state_dir = directory_.Path("state"), .programs = directory_.path(), .num_workers = 2, .threads = 3};
};

TEST_F(LocalClusterTest, IsUpWhenAllWorkersAreRegistered) {
  const auto cluster = Start();
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ((*cluster)->address(), service_.address());
  EXPECT_THAT(Starts("coordinator"), ElementsAre(HasSubstr(absl::StrCat(" --state-dir ", options_.state_dir))));
  EXPECT_THAT(Starts("worker-1"), ElementsAre(testing::AllOf(HasSubstr(" --coordinator " + service_.address()),
                                                             HasSubstr(" --name worker-1"), HasSubstr(" --device cpu"),
                                                             HasSubstr(" --threads 3"), HasSubstr(" --memory "))));
  EXPECT_THAT((*cluster)->Poll(), testing::IsEmpty());
}

TEST_F(LocalClusterTest, TellsSimulatedWorkersWhatABlockTakes) {
  options_.device = "simulated";
  options_.simulated_block_seconds = "0.02,0.02,0.01";
  ASSERT_TRUE(Start().ok());
  EXPECT_THAT(Starts("worker-1"), ElementsAre(testing::AllOf(HasSubstr(" --device simulated"),
                                                             HasSubstr(" --simulated-block-seconds 0.02,0.02,0.01"))));
}

TEST_F(LocalClusterTest, ListensOnASocketUnlessItsPathIsTooLong) {
  ASSERT_TRUE(Start().ok());
  EXPECT_THAT(Starts("coordinator").back(), HasSubstr(absl::StrCat("--listen unix:", options_.state_dir)));
  options_.state_dir = directory_.Path(std::string(100, 'x'));
  ASSERT_TRUE(MakePrivateDirectory(options_.state_dir).ok());
  ASSERT_TRUE(Start().ok());
  EXPECT_THAT(Starts("coordinator").back(), HasSubstr("--listen 127.0.0.1:0"));
}

TEST_F(LocalClusterTest, StartsTheDeadAgainAtTheSameAddress) {
  const auto cluster = Start();
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  for (const char* name : {"coordinator", "worker-1"}) {
    ASSERT_EQ(kill(static_cast<pid_t>(NewestPid(name)), SIGKILL), 0);
    std::vector<LocalCluster::Death> deaths;
    const absl::Time end = absl::Now() + kPatience;
    while (Starts(name).size() < 2 && absl::Now() < end) {
      for (const LocalCluster::Death& death : (*cluster)->Poll()) deaths.push_back(death);
      absl::SleepFor(absl::Milliseconds(1));
    }
    ASSERT_THAT(deaths, SizeIs(1));
    EXPECT_EQ(deaths[0].name, name);
    EXPECT_THAT(deaths[0].end, HasSubstr("signal 9"));
    ASSERT_THAT(Starts(name), SizeIs(2));
  }
  EXPECT_THAT(Starts("coordinator").back(), HasSubstr("--listen " + service_.address()));
}

TEST_F(LocalClusterTest, LeavesTheDeadWhenItIsToldTo) {
  options_.restart_workers = false;
  const auto cluster = Start();
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  ASSERT_EQ(kill(static_cast<pid_t>(NewestPid("worker-0")), SIGKILL), 0);
  const absl::Time end = absl::Now() + kPatience;
  while ((*cluster)->Poll().empty() && absl::Now() < end) absl::SleepFor(absl::Milliseconds(1));
  absl::SleepFor(3 * RestartDelay::kFirst);
  EXPECT_THAT((*cluster)->Poll(), testing::IsEmpty());
  EXPECT_THAT(Starts("worker-0"), SizeIs(1));
}

TEST_F(LocalClusterTest, StopsWorkersAndThenTheCoordinator) {
  const auto cluster = Start();
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  (*cluster)->Stop(kPatience, [] { return true; });
  for (const char* name : {"coordinator", "worker-0", "worker-1"}) {
    EXPECT_EQ(kill(static_cast<pid_t>(NewestPid(name)), 0), -1) << name;
  }
}

TEST_F(LocalClusterTest, EndsWhoDoesNotStopByForce) {
  WriteProgram("stagecoach-worker", "trap '' TERM; echo $$ \"$@\"; while :; do sleep 0.01; done");
  const auto cluster = Start();
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  (*cluster)->Stop(absl::Milliseconds(50), [] { return true; });
  EXPECT_EQ(kill(static_cast<pid_t>(NewestPid("worker-1")), 0), -1);
}

TEST_F(LocalClusterTest, NamesTheProgramThatIsMissing) {
  unlink((options_.programs + "/stagecoach-worker").c_str());
  const absl::Status status = Start().status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("stagecoach-worker; it belongs beside stagecoach"));
}

TEST_F(LocalClusterTest, WhoDiesAtItsStartEndsItWithItsLog) {
  WriteProgram("stagecoach-worker", "echo $$ no device here; exit 2");
  const absl::Status status = Start().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr("worker-"), HasSubstr("exited with 2"), HasSubstr(" no device here\n")));
  EXPECT_EQ(kill(static_cast<pid_t>(NewestPid("coordinator")), 0), -1);
}

TEST_F(LocalClusterTest, DoesNotWaitForever) {
  WriteProgram("stagecoach-coordinator", "exec sleep 1000");
  EXPECT_TRUE(absl::IsDeadlineExceeded(Start(absl::Milliseconds(50)).status()));
}

TEST_F(LocalClusterTest, IsInterruptible) {
  WriteProgram("stagecoach-coordinator", "exec sleep 1000");
  EXPECT_TRUE(absl::IsCancelled(LocalCluster::Start(options_, kPatience, [] { return false; }).status()));
}

}  // namespace
}  // namespace stagecoach
