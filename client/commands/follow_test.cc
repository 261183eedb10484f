#include "client/commands/follow.h"

#include <gmock/gmock.h>

#include <csignal>
#include <thread>

#include "client/commands/testing/command_line_test.h"
#include "client/output/json.h"

namespace stagecoach {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class FollowTest : public CommandLineTest {
 protected:
  FollowTest() { PutJob("gpt", v1::JOB_STATE_RUNNING, 1); }
};

// wait

TEST_F(FollowTest, WaitEndsWithTheJobsCode) {
  AddStatus("gpt", v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Run({"wait", "gpt"}).code, 0);
  EXPECT_EQ(Run({"wait", "gpt"}).out, "");
  PutJob("bad", v1::JOB_STATE_RUNNING);
  AddStatus("bad", v1::JOB_STATE_FAILED);
  EXPECT_EQ(Run({"wait", "bad", "--for=terminal"}).code, 3);
  PutJob("off", v1::JOB_STATE_RUNNING);
  AddStatus("off", v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(Run({"wait", "off"}).code, 8);
  EXPECT_EQ(Run({"wait", "none"}).code, 5);
}

TEST_F(FollowTest, WaitForWhatIsSo) {
  EXPECT_EQ(Run({"wait", "gpt", "--for=running"}).code, 0);
  EXPECT_EQ(Run({"wait", "gpt", "--for=step=1"}).code, 0);
  EXPECT_EQ(Json::parse(Run({"wait", "gpt", "--for=running", "-o", "json"}).out)["state"], "RUNNING");
}

TEST_F(FollowTest, WaitForWhatComes) {
  std::thread job([&] {
    while (service_.calls().follows.empty()) std::this_thread::yield();
    AddStep("gpt", 2);
    AddStep("gpt", 3);
  });
  EXPECT_EQ(Run({"wait", "gpt", "--for=step=3", "--timeout", "30s"}).code, 0);
  job.join();
}

TEST_F(FollowTest, WaitForACheckpoint) {
  std::thread job([&] {
    while (service_.calls().count["GetJob"] == 0) std::this_thread::yield();
    v1::Job with = PutJob("gpt", v1::JOB_STATE_RUNNING, 2);
    with.set_checkpoint_directory("/checkpoints/step-2");
    service_.PutJob(with);
    v1::JobEvent event;
    event.mutable_note()->set_reason("CheckpointCompleted");
    service_.AddEvent("gpt", event);
  });
  EXPECT_EQ(Run({"wait", "gpt", "--for=checkpoint", "--timeout", "30s"}).code, 0);
  job.join();
}

TEST_F(FollowTest, WaitForWhatWillNeverComeIsAnError) {
  PutJob("bad", v1::JOB_STATE_RUNNING, 1);
  AddStatus("bad", v1::JOB_STATE_FAILED);
  const Result failed = Run({"wait", "bad", "--for=step=5"});
  EXPECT_EQ(failed.code, 3);
  EXPECT_THAT(failed.err, HasSubstr("is FAILED at step 0 and will not come to step=5"));
  AddStatus("gpt", v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Run({"wait", "gpt", "--for=step=5"}).code, 9);
}

TEST_F(FollowTest, WaitGivesUpAfterItsTimeout) {
  const Result result = Run({"wait", "gpt", "--for", "step=7", "--timeout", "500ms"});
  EXPECT_EQ(result.code, 7);
  EXPECT_THAT(result.err, HasSubstr("RUNNING at step 1 after 500ms, and not yet at step=7"));
}

TEST_F(FollowTest, WaitRefusesWhatItDoesNotKnow) {
  for (const char* condition : {"walking", "step=", "step=x", "step=-1", "step=+1", ""}) {
    EXPECT_EQ(Run({"wait", "gpt", std::string("--for=") + condition}).code, 2) << condition;
  }
  for (const char* timeout : {"10", "-1s", "soon"}) {
    EXPECT_EQ(Run({"wait", "gpt", std::string("--timeout=") + timeout}).code, 2) << timeout;
  }
}

TEST_F(FollowTest, WaitIsInterruptible) {
  std::thread interrupter([&] {
    while (service_.calls().follows.empty()) std::this_thread::yield();
    raise(SIGINT);
  });
  const Result result = Run({"wait", "gpt"});
  interrupter.join();
  EXPECT_EQ(result.code, 130);
  EXPECT_THAT(result.err, HasSubstr("detached: job gpt goes on"));
}

TEST_F(FollowTest, WaitOutlivesARestart) {
  std::thread job([&] {
    while (service_.calls().follows.empty()) std::this_thread::yield();
    service_.Stop();
    AddStatus("gpt", v1::JOB_STATE_SUCCEEDED);
    service_.Start();
  });
  const Result result = Run({"wait", "gpt", "--timeout", "30s"});
  job.join();
  EXPECT_EQ(result.code, 0) << result.err;
}

// Following is more patient than asking, whatever it was that got no answer.
TEST_F(FollowTest, WaitOutlivesACoordinatorThatDoesNotAnswerWhatAnEventMeans) {
  for (int i = 0; i < 12; ++i) service_.Fail("GetJob", absl::StatusCode::kUnavailable);
  EXPECT_EQ(Run({"wait", "gpt", "--for=running", "--timeout", "30s", "--reconnect-timeout", "200ms"}).code, 0);
}

TEST_F(FollowTest, WaitTakesTheEndFromItsEvent) {
  AddStatus("gpt", v1::JOB_STATE_FAILED);
  for (int i = 0; i < 1000; ++i) service_.Fail("GetJob", absl::StatusCode::kUnavailable);
  EXPECT_EQ(Run({"wait", "gpt", "--reconnect-timeout", "200ms"}).code, 3);
}

TEST(LostFailureTest, SaysWhereTheJobWasWhenLastSeen) {
  v1::JobStatus last;
  last.set_state(v1::JOB_STATE_RUNNING);
  last.set_step(7);
  const Failure failure = LostFailure(absl::UnavailableError("connection refused"), "gpt", last);
  EXPECT_EQ(failure.code, 6);
  EXPECT_EQ(failure.status.message(),
            "job state unknown: gpt was RUNNING at step 7 when last seen; the coordinator is lost: connection refused");
  EXPECT_THAT(std::string(LostFailure(absl::UnavailableError("x"), "gpt", {}).status.message()),
              HasSubstr("gpt was not seen"));
  EXPECT_EQ(LostFailure(absl::NotFoundError("there is no job gpt"), "gpt", last).code, 5);
}

TEST_F(FollowTest, FollowedEventsOfALostCoordinatorAreSix) {
  AddStatus("gpt", v1::JOB_STATE_RUNNING);
  std::thread stopper([&] {
    while (service_.calls().follows.empty()) std::this_thread::yield();
    service_.Stop();
  });
  const Result result = Run({"events", "gpt", "-f", "--reconnect-timeout", "300ms"});
  stopper.join();
  EXPECT_EQ(result.code, 6);
  EXPECT_THAT(result.err, AllOf(HasSubstr("reconnecting for 300ms"), HasSubstr("job state unknown: gpt")));
}

// logs

TEST_F(FollowTest, LogsArePrefixedAndEnd) {
  service_.AddLine("gpt", "worker-0", "one");
  service_.AddLine("gpt", "worker-1", "two");
  const Result result = Run({"logs", "gpt"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "worker-0 | one\nworker-1 | two\n");
  EXPECT_EQ(Run({"logs", "gpt", "--worker", "worker-1"}).out, "worker-1 | two\n");
  EXPECT_EQ(Run({"logs", "gpt", "--tail", "1"}).out, "worker-1 | two\n");
  EXPECT_EQ(Run({"logs", "gpt", "--since", "10s"}).out, "");  // they are of 2023
  EXPECT_EQ(Run({"logs", "none"}).code, 5);
}

TEST_F(FollowTest, LogsInJson) {
  service_.AddLine("gpt", "worker-0", "one");
  const Json line = Json::parse(Run({"logs", "gpt", "-o", "jsonl"}).out);
  EXPECT_EQ(line["worker"], "worker-0");
  EXPECT_EQ(line["text"], "one");
  EXPECT_EQ(line["severity"], "WARNING");
}

TEST_F(FollowTest, LogsOfAStageAreAskedFor) {
  Run({"logs", "gpt", "--stage", "0"});
  EXPECT_TRUE(service_.calls().log_follows[0].has_stage());
  EXPECT_EQ(Run({"logs", "gpt", "--stage", "0", "--worker", "w"}).code, 2);
}

TEST_F(FollowTest, FollowedLogsEndWithTheJobsCode) {
  service_.AddLine("gpt", "worker-0", "one");
  std::thread job([&] {
    while (service_.calls().log_follows.empty()) std::this_thread::yield();
    service_.AddLine("gpt", "worker-0", "two");
    PutJob("gpt", v1::JOB_STATE_FAILED);
    service_.EndLogs();
  });
  const Result result = Run({"logs", "gpt", "-f"});
  job.join();
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(result.out, "worker-0 | one\nworker-0 | two\n");
}

// events -f

TEST_F(FollowTest, FollowedEventsEndWithTheJobsCode) {
  AddStatus("gpt", v1::JOB_STATE_RUNNING, "Training");
  AddStep("gpt", 1);
  AddStatus("gpt", v1::JOB_STATE_CANCELLED, "CancelRequested");
  const Result result = Run({"events", "gpt", "-f"});
  EXPECT_EQ(result.code, 8);
  EXPECT_THAT(result.out, AllOf(HasSubstr("Training"), HasSubstr("CancelRequested"), Not(HasSubstr("STEP"))));
  const Result steps = Run({"events", "gpt", "-f", "--steps", "-o", "jsonl"});
  EXPECT_THAT(steps.out, HasSubstr("\"step\":{\"step\":1,"));
}

}  // namespace
}  // namespace stagecoach
