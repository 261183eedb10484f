#include "client/cluster/run_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>

#include "tests/testing/temporary_directory.h"

namespace stagecoach {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class RunDirectoryTest : public testing::Test {
 protected:
  RunDirectoryTest() { setenv("TMPDIR", directory_.path().c_str(), 1); }
  ~RunDirectoryTest() override {
    if (former_.has_value()) {
      setenv("TMPDIR", former_->c_str(), 1);
    } else {
      unsetenv("TMPDIR");
    }
  }
  static std::optional<std::string> Former() {
    const char* variable = getenv("TMPDIR");
    return variable == nullptr ? std::nullopt : std::optional<std::string>(variable);
  }
  std::unique_ptr<RunDirectory> Make() {
    auto made = RunDirectory::Make();
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }
  // A process makes one and is killed. The path.
  std::string MakeAndDie(bool keep) {
    const std::set<std::string> before = There();
    const pid_t pid = fork();
    if (pid == 0) {
      const auto made = RunDirectory::Make();
      if (made.ok()) std::ofstream((*made)->path() + "/journal.sqlite") << "a journal";
      if (made.ok() && keep) (*made)->Keep();
      kill(getpid(), SIGKILL);
    }
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    for (const std::string& path : There()) {
      if (!before.contains(path)) return path;
    }
    ADD_FAILURE() << "nothing was made";
    return "";
  }
  std::set<std::string> There() const {
    std::set<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) paths.insert(entry.path());
    return paths;
  }

  const std::optional<std::string> former_ = Former();
  TemporaryDirectory directory_;
};

TEST_F(RunDirectoryTest, IsOfThisUserAloneAndGoesAway) {
  auto made = Make();
  struct stat info;
  ASSERT_EQ(stat(made->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_THAT(There(), ElementsAre(made->path()));
  made.reset();
  EXPECT_THAT(There(), IsEmpty());
}

TEST_F(RunDirectoryTest, WhatAKilledProcessHasLeftIsRemovedByTheNext) {
  const std::string left = MakeAndDie(/*keep=*/false);
  EXPECT_TRUE(std::filesystem::exists(left + "/journal.sqlite"));
  const auto made = Make();
  EXPECT_THAT(There(), ElementsAre(made->path()));
}

TEST_F(RunDirectoryTest, WhatIsKeptOrInUseIsLeftAlone) {
  const auto in_use = Make();
  const std::string kept = MakeAndDie(/*keep=*/true);
  std::string kept_by_this;
  {
    const auto made = Make();
    made->Keep();
    kept_by_this = made->path();
  }
  Make();
  EXPECT_EQ(There(), (std::set<std::string>{in_use->path(), kept, kept_by_this}));
}

TEST_F(RunDirectoryTest, WhatIsNotARunsIsLeftAlone) {
  const std::string other = directory_.Path("stagecoach-train-other");
  const std::string target = directory_.Path("target");
  for (const std::string& path : {other, target}) std::filesystem::create_directory(path);
  std::ofstream(target + "/client.pid") << "1\n";
  std::filesystem::create_directory_symlink(target, directory_.Path("stagecoach-train-link"));
  std::ofstream(directory_.Path("stagecoach-train-file")) << "a file";
  const std::set<std::string> before = There();
  Make();
  EXPECT_EQ(There(), before);
  EXPECT_TRUE(std::filesystem::exists(target + "/client.pid"));
}

}  // namespace
}  // namespace stagecoach
