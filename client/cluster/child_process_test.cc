#include "client/cluster/child_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/file_system.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;
using testing::Optional;

constexpr absl::Duration kPatience = absl::Seconds(20);

class ChildProcessTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<ChildProcess>> StartShell(const std::string& script) {
    return ChildProcess::Start({.program = "/bin/sh",
                                .arguments = {"-c", script},
                                .environment = {"STAGECOACH_TEST_GIVEN=new", "PATH=new"},
                                .log_path = log_path_});
  }
  // Runs it to its end, and returns what it has printed.
  std::string OutputOf(const std::string& script) {
    const auto child = StartShell(script);
    EXPECT_TRUE(child.ok()) << child.status();
    if (!child.ok() || !(*child)->Wait(kPatience)) return "still running";
    return *ReadFile(FileSystem::Posix(), log_path_, 1 << 20);
  }
  // Until the process is gone, or a zombie.
  static bool IsGone(pid_t pid) {
    for (const absl::Time end = absl::Now() + kPatience; absl::Now() < end; absl::SleepFor(absl::Milliseconds(5))) {
      const auto stat = ReadFile(FileSystem::Posix(), absl::StrCat("/proc/", pid, "/stat"), 4096);
      if (!stat.ok() || stat->find(") Z") != std::string::npos) return true;
    }
    return false;
  }

  const TemporaryDirectory directory_;
  const std::string log_path_ = directory_.Path("log");
};

TEST_F(ChildProcessTest, TellsHowItEnded) {
  EXPECT_THAT((*StartShell("exit 7"))->Wait(kPatience), Optional(std::string("exited with 7")));
  EXPECT_THAT((*StartShell("kill -9 $$"))->Wait(kPatience), Optional(std::string("was killed by signal 9 (Killed)")));
  const auto child = StartShell("exec sleep 100");
  EXPECT_EQ((*child)->Poll(), std::nullopt);
  (*child)->Signal(SIGTERM);
  EXPECT_THAT((*child)->Wait(kPatience), Optional(HasSubstr("signal 15")));
  EXPECT_THAT((*child)->Poll(), Optional(HasSubstr("signal 15")));
}

TEST_F(ChildProcessTest, AppendsBothOutputsToItsLog) {
  EXPECT_EQ(OutputOf("echo one; echo two >&2"), "one\ntwo\n");
  EXPECT_EQ(OutputOf("echo three"), "one\ntwo\nthree\n");
}

TEST_F(ChildProcessTest, AProgramThatCannotRunIsAnError) {
  EXPECT_TRUE(absl::IsNotFound(
      ChildProcess::Start({.program = "/no/such/program", .arguments = {}, .log_path = log_path_}).status()));
  EXPECT_TRUE(absl::IsNotFound(
      ChildProcess::Start({.program = "/bin/sh", .arguments = {}, .log_path = "/no/such/log"}).status()));
}

TEST_F(ChildProcessTest, InheritsNoDescriptors) {
  const int stray = open("/dev/null", O_RDONLY);
  ASSERT_GE(stray, 3);
  // The shell's glob opens the directory with the lowest free number.
  EXPECT_EQ(OutputOf("cd /proc/$$/fd; echo *"), "0 1 2 3\n");
  EXPECT_NE(fcntl(stray, F_GETFD), -1);
  close(stray);
}

TEST_F(ChildProcessTest, HasNothingToRead) { EXPECT_EQ(OutputOf("cat; echo done"), "done\n"); }

TEST_F(ChildProcessTest, SignalsAreNeitherIgnoredNorBlocked) {
  signal(SIGPIPE, SIG_IGN);
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  sigprocmask(SIG_BLOCK, &blocked, nullptr);
  EXPECT_THAT((*StartShell("kill -PIPE $$; exit 0"))->Wait(kPatience), Optional(HasSubstr("signal 13")));
  EXPECT_THAT((*StartShell("kill -USR1 $$; exit 0"))->Wait(kPatience), Optional(HasSubstr("signal 10")));
  sigprocmask(SIG_UNBLOCK, &blocked, nullptr);
  signal(SIGPIPE, SIG_DFL);
}

TEST_F(ChildProcessTest, HasAGroupOfItsOwn) {
  const auto child = StartShell("exec sleep 100");
  EXPECT_EQ(getpgid((*child)->pid()), (*child)->pid());
}

TEST_F(ChildProcessTest, GetsWhatTheEnvironmentLacks) {
  EXPECT_THAT(OutputOf("echo $STAGECOACH_TEST_GIVEN $PATH"), testing::StartsWith("new /"));
}

TEST_F(ChildProcessTest, DiesWithItsObject) {
  pid_t pid = 0;
  {
    const auto child = StartShell("trap '' TERM; while :; do sleep 1; done");
    pid = (*child)->pid();
  }
  EXPECT_EQ(kill(pid, 0), -1);
}

TEST_F(ChildProcessTest, DiesWithItsParentHoweverThatEnds) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    const auto child = StartShell("exec sleep 1000");
    const pid_t pid = (*child)->pid();
    (void)!write(ends[1], &pid, sizeof pid);
    raise(SIGKILL);
  }
  pid_t grandchild = 0;
  ASSERT_EQ(read(ends[0], &grandchild, sizeof grandchild), static_cast<ssize_t>(sizeof grandchild));
  ASSERT_EQ(waitpid(parent, nullptr, 0), parent);
  EXPECT_TRUE(IsGone(grandchild));
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace stagecoach
