#include "client/cluster/supervisor_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {
namespace {

TEST(SupervisorLockTest, SaysWhoRuns) {
  const TemporaryDirectory directory;
  EXPECT_FALSE(FindSupervisor(directory.path())->known);
  {
    const absl::StatusOr<FileLock> lock = LockStateDir(directory.path());
    ASSERT_TRUE(lock.ok()) << lock.status();
    const Supervisor supervisor = *FindSupervisor(directory.path());
    EXPECT_TRUE(supervisor.runs);
    EXPECT_EQ(supervisor.pid, getpid());
  }
  const Supervisor supervisor = *FindSupervisor(directory.path());
  EXPECT_TRUE(supervisor.known);
  EXPECT_FALSE(supervisor.runs);
}

TEST(SupervisorLockTest, IsTakenOnce) {
  const TemporaryDirectory directory;
  const absl::StatusOr<FileLock> lock = LockStateDir(directory.path());
  const absl::Status second = LockStateDir(directory.path()).status();
  EXPECT_TRUE(absl::IsAlreadyExists(second));
  EXPECT_THAT(std::string(second.message()), testing::HasSubstr(absl::StrCat("(pid ", getpid(), ")")));
}

// After a crash the file names a process that is gone, or by now another.
TEST(SupervisorLockTest, AStalePidIsNobody) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(WritePrivateFile(directory.Path("supervisor.pid"), "1\n").ok());
  EXPECT_FALSE(FindSupervisor(directory.path())->runs);
  EXPECT_TRUE(LockStateDir(directory.path()).ok());
}

}  // namespace
}  // namespace stagecoach
