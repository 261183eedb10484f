#include <gmock/gmock.h>

#include <csignal>
#include <thread>

#include "absl/strings/str_split.h"
#include "client/commands/testing/command_line_test.h"
#include "client/output/json.h"

namespace stagecoach {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

class SubmitTest : public CommandLineTest {
 protected:
  static std::vector<Json> Objects(const std::string& out) {
    std::vector<Json> objects;
    for (const absl::string_view line : absl::StrSplit(out, '\n', absl::SkipEmpty())) {
      objects.push_back(Json::parse(std::string(line)));
    }
    return objects;
  }
  // The events are there before the job is: the fake gives them to whoever follows.
  void JobThatTakesThreeSteps(v1::JobState end) {
    AddStatus("gpt", v1::JOB_STATE_RUNNING);
    AddStep("gpt", 1);
    AddStep("gpt", 2, /*validation_follows=*/true);
    AddValidation("gpt", 2, 0.25);
    AddStep("gpt", 3);
    AddStatus("gpt", end, "Because");
  }
};

TEST_F(SubmitTest, PrintsTheNameAlone) {
  const Result result = Run({"submit", SpecFile()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "gpt\n");
  EXPECT_THAT(result.err, AllOf(HasSubstr("Next steps:"), HasSubstr("stagecoach logs gpt -f")));
  EXPECT_EQ(service_.calls().submissions[0].spec().training().steps(), 3u);
}

TEST_F(SubmitTest, ReadsStandardInputAndOverrides) {
  const Result result = RunWith(SpecText(), {"submit", "-", "--set", "training.steps=9", "--submission-id", "mine"});
  EXPECT_EQ(result.code, 0) << result.err;
  const v1::SubmitJobRequest request = service_.calls().submissions[0];
  EXPECT_EQ(request.spec().training().steps(), 9u);
  EXPECT_EQ(request.submission_id(), "mine");
}

TEST_F(SubmitTest, TheSameSubmissionIsTheSameJobAndAnotherIsAConflict) {
  EXPECT_EQ(Run({"submit", SpecFile(), "--submission-id", "a"}).code, 0);
  EXPECT_EQ(Run({"submit", SpecFile(), "--submission-id", "a"}).out, "gpt\n");
  const Result other = Run({"submit", SpecFile(), "--submission-id", "b"});
  EXPECT_EQ(other.code, 9);
  EXPECT_EQ(other.out, "");
}

TEST_F(SubmitTest, JsonIsTheJob) {
  const Result result = Run({"submit", SpecFile(), "-o", "json"});
  EXPECT_EQ(Json::parse(result.out)["state"], "QUEUED");
  EXPECT_EQ(Json::parse(result.out)["schema_version"], 1);
}

TEST_F(SubmitTest, NothingIsSubmittedInADryRunOrWhenTheSpecificationIsWrong) {
  EXPECT_EQ(Run({"submit", SpecFile(), "--dry-run"}).code, 0);
  EXPECT_EQ(Run({"submit", SpecFile(), "--set", "training.stepz=1"}).code, 2);
  EXPECT_EQ(Run({"submit", SpecFile(), "--set", "parallelism.pipeline_parallel_degree=5"}).code, 2);
  EXPECT_EQ(Run({"submit", "/no/such/file"}).code, 2);
  EXPECT_THAT(service_.calls().submissions, SizeIs(0));
}

TEST_F(SubmitTest, FollowShowsEveryStepOnceWithItsValidationLoss) {
  JobThatTakesThreeSteps(v1::JOB_STATE_SUCCEEDED);
  service_.BreakAfter(4, absl::StatusCode::kUnavailable);  // after step 2 and its validation loss
  const Result result = Run({"submit", SpecFile(), "--follow", "-o", "jsonl"});
  EXPECT_EQ(result.code, 0) << result.err;
  const std::vector<Json> objects = Objects(result.out);
  ASSERT_THAT(objects, SizeIs(4));
  EXPECT_EQ(objects[0]["step"], 1);
  EXPECT_FALSE(objects[0].contains("validation_loss"));
  EXPECT_EQ(objects[1]["step"], 2);
  EXPECT_EQ(objects[1]["validation_loss"], 0.25);
  EXPECT_EQ(objects[2]["step"], 3);
  EXPECT_EQ(objects[3]["state"], "SUCCEEDED");
  EXPECT_EQ(objects[3]["reason"], "Because");
  EXPECT_THAT(result.err, HasSubstr("connection to the coordinator lost"));
}

TEST_F(SubmitTest, FollowsTextEndsWithTheResult) {
  JobThatTakesThreeSteps(v1::JOB_STATE_SUCCEEDED);
  const Result result = Run({"submit", SpecFile(), "--follow"});
  EXPECT_THAT(result.out, AllOf(testing::StartsWith("gpt\n"), HasSubstr("state:        SUCCEEDED Because\n")));
  EXPECT_THAT(result.err, AllOf(HasSubstr("step: 1/3 "), HasSubstr("step: 2/3 "), HasSubstr("validation_loss: 0.2500"),
                                HasSubstr("step: 3/3 ")));
}

TEST_F(SubmitTest, WaitPrintsTheNameAloneToo) {
  JobThatTakesThreeSteps(v1::JOB_STATE_SUCCEEDED);
  const Result result = Run({"submit", SpecFile(), "--wait"});
  EXPECT_EQ(result.out, "gpt\n");
  EXPECT_THAT(result.err, AllOf(HasSubstr("SUCCEEDED"), Not(HasSubstr("step: "))));
}

TEST_F(SubmitTest, TheExitCodeIsTheJobs) {
  JobThatTakesThreeSteps(v1::JOB_STATE_FAILED);
  EXPECT_EQ(Run({"submit", SpecFile(), "--wait"}).code, 3);
  const Result json =
      Run({"submit", SpecFile("other"), "--wait", "-o", "json", "--submission-id", "x", "--set", "name=gpt"});
  EXPECT_EQ(json.code, 9);
}

TEST_F(SubmitTest, ACancelledJobIsEight) {
  JobThatTakesThreeSteps(v1::JOB_STATE_CANCELLED);
  const Result result = Run({"submit", SpecFile(), "--follow", "-o", "json"});
  EXPECT_EQ(result.code, 8);
  EXPECT_EQ(Json::parse(result.out)["state"], "CANCELLED");
}

TEST_F(SubmitTest, AJobWithARootCauseShowsIt) {
  AddStatus("gpt", v1::JOB_STATE_RUNNING);
  v1::JobEvent event;
  event.mutable_status()->set_job("gpt");
  event.mutable_status()->set_state(v1::JOB_STATE_FAILED);
  event.mutable_status()->mutable_root_cause()->set_worker("worker-1");
  event.mutable_status()->mutable_root_cause()->set_step(2);
  event.mutable_status()->mutable_root_cause()->set_message("killed");
  service_.AddEvent("gpt", event);
  EXPECT_THAT(Run({"submit", SpecFile(), "--wait"}).err, HasSubstr("root cause: worker-1 at step 2: killed\n"));
}

// skypilot#4599, ray#57002: a stream that ends is no success.
TEST_F(SubmitTest, ALostCoordinatorIsSixAndTheStateIsUnknown) {
  AddStatus("gpt", v1::JOB_STATE_RUNNING);
  AddStep("gpt", 1);
  service_.BreakAfter(2, absl::StatusCode::kUnavailable);
  const std::string spec = SpecFile();
  std::thread stopper([&] {
    while (service_.calls().follows.empty()) std::this_thread::yield();
    service_.Stop();
  });
  const Result result = Run({"submit", spec, "--follow", "-o", "jsonl", "--reconnect-timeout", "300ms"});
  stopper.join();
  EXPECT_EQ(result.code, 6);
  EXPECT_THAT(result.err, HasSubstr("job state unknown: gpt"));
}

TEST_F(SubmitTest, AnInterruptDetaches) {
  AddStatus("gpt", v1::JOB_STATE_RUNNING);
  AddStep("gpt", 1, /*validation_follows=*/true);
  const std::string spec = SpecFile();
  std::thread interrupter([&] {
    while (service_.calls().follows.empty()) std::this_thread::yield();
    raise(SIGINT);
  });
  const Result result = Run({"submit", spec, "--follow", "-o", "jsonl"});
  interrupter.join();
  EXPECT_EQ(result.code, 130);
  EXPECT_THAT(result.err, HasSubstr("detached: job gpt goes on"));
  EXPECT_THAT(service_.calls().changes, SizeIs(0));
}

TEST_F(SubmitTest, FollowTellsOfCheckpointsThatFailAndOfWhereTheJobResumed) {
  const auto add_note = [&](const std::string& reason, const std::string& message) {
    v1::JobEvent event;
    event.mutable_note()->set_reason(reason);
    event.mutable_note()->set_message(message);
    service_.AddEvent("gpt", event);
  };
  add_note("JobResumed", "from step 4 in /checkpoints; newer ones do not verify");
  add_note("EpochStarted", "epoch 7");
  add_note("CheckpointFailed", "step 5: no space");
  AddStatus("gpt", v1::JOB_STATE_SUCCEEDED);
  const std::string told = Run({"submit", SpecFile(), "--follow"}).err;
  EXPECT_THAT(told, AllOf(HasSubstr("resumed from step 4 in /checkpoints; newer ones do not verify\n"),
                          HasSubstr("checkpoint failed: step 5: no space\n"), Not(HasSubstr("epoch 7"))));
}

TEST_F(SubmitTest, EventsThatAreNoLongerKeptAreMentioned) {
  v1::JobEvent event;
  event.set_num_missing(17);
  event.mutable_step()->set_step(18);
  service_.AddEvent("gpt", event);
  AddStatus("gpt", v1::JOB_STATE_SUCCEEDED);
  EXPECT_THAT(Run({"submit", SpecFile(), "--follow"}).err, HasSubstr("17 step(s) are no longer kept"));
}

}  // namespace
}  // namespace stagecoach
