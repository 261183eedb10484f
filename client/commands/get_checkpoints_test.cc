#include <gmock/gmock.h>

#include <string>

#include "client/commands/testing/command_line_test.h"
#include "client/output/json.h"
#include "common/file_system.h"
#include "formats/checkpoint.h"
#include "tests/testing/checkpoint/small_checkpoint.h"

namespace stagecoach {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Of job "job", which has written two checkpoints; "later" was resumed from the newer one, and has written none yet.
class GetCheckpointsTest : public CommandLineTest {
 protected:
  GetCheckpointsTest() {
    older_ = WriteSmallCheckpoint(files_, root_, 5, {});
    newer_ = WriteSmallCheckpoint(files_, root_, 10, {});
    EXPECT_TRUE(MakeCheckpointDirectory(files_, root_, Step(15)).ok());  // being written
    PutJobWith("job", newer_, 10);
    PutJobWith("later", newer_, 10);
    PutJob("fresh", v1::JOB_STATE_RUNNING, 3);
  }
  void PutJobWith(const std::string& name, const std::string& directory, uint64_t step) {
    v1::Job job = PutJob(name, v1::JOB_STATE_RUNNING, step);
    job.set_checkpoint_directory(directory);
    job.set_checkpoint_step(step);
    service_.PutJob(job);
  }
  static Json Get(const std::vector<std::string>& job) {
    std::vector<std::string> arguments = {"get", "checkpoints", "-o", "json"};
    arguments.insert(arguments.end(), job.begin(), job.end());
    const Result result = Run(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    return Json::parse(result.out)["checkpoints"];
  }

  FileSystem& files_ = FileSystem::Posix();
  const std::string root_ = directory_.Path("checkpoints");
  std::string older_, newer_;
};

TEST_F(GetCheckpointsTest, ThoseThatAJobHasWrittenTheNewestFirst) {
  const Json list = Get({"job"});
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0]["path"], newer_);
  EXPECT_EQ(list[0]["step"], 10);
  EXPECT_EQ(list[0]["state"], "COMPLETE");
  EXPECT_EQ(list[0]["shards"], 1);
  EXPECT_EQ(list[1]["path"], older_);
  EXPECT_EQ(Run({"get", "checkpoint", "job", "-q"}).out, newer_ + "\n" + older_ + "\n");
  EXPECT_THAT(Run({"get", "checkpoints", "job"}).out, AllOf(HasSubstr("STEP  STATE"), HasSubstr(older_)));
}

TEST_F(GetCheckpointsTest, OneThatItWasResumedFromIsItsNewest) {
  const Json list = Get({"later"});
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0]["path"], newer_);
  EXPECT_EQ(list[0]["job"], "job");
}

TEST_F(GetCheckpointsTest, OfAllJobsEachIsListedOnce) {
  const Json list = Get({});
  ASSERT_EQ(list.size(), 2u);
}

TEST_F(GetCheckpointsTest, AJobWithoutAnyHasNone) {
  EXPECT_TRUE(Get({"fresh"}).empty());
  EXPECT_EQ(Run({"get", "checkpoints", "nobody"}).code, 5);
}

TEST_F(GetCheckpointsTest, ADamagedOneIsSaidToBe) {
  ASSERT_TRUE(WriteFileAtomically(files_, older_ + "/manifest.json", "{").ok());
  const Json list = Get({"job"});
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[1]["state"], "DAMAGED");
  EXPECT_THAT(list[1]["message"], HasSubstr("manifest.json"));
}

TEST_F(GetCheckpointsTest, WithoutTheFileSystemItSaysWhereTheyAre) {
  PutJobWith("far", "/nowhere/checkpoints/step-0000000007", 7);
  const Result one = Run({"get", "checkpoints", "far"});
  EXPECT_EQ(one.code, 1);
  EXPECT_EQ(one.out, "");
  EXPECT_THAT(one.err, HasSubstr("of step 7, in /nowhere/checkpoints/step-0000000007, which cannot be read from this"));
  const Result all = Run({"get", "checkpoints", "-o", "name"});
  EXPECT_EQ(all.code, 0);
  EXPECT_THAT(all.out, AllOf(HasSubstr(newer_), Not(HasSubstr("/nowhere"))));
  EXPECT_THAT(all.err, HasSubstr("job far"));
}

}  // namespace
}  // namespace stagecoach
