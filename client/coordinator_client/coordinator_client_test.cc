#include "client/coordinator_client/coordinator_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/coordinator_client/testing/fake_coordinator_service.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {
namespace {

using testing::ElementsAre;
using testing::SizeIs;
using When = FakeCoordinatorService::When;

class CoordinatorClientTest : public testing::Test {
 protected:
  CoordinatorClient Client(absl::Duration retry_for = absl::Seconds(20)) {
    return CoordinatorClient({.address = service_.address(),
                              .retry_for = retry_for,
                              .on_outage = [this](const absl::Status&) { ++outages_; }});
  }
  static v1::SubmitJobRequest Submission(const std::string& name) {
    v1::SubmitJobRequest request;
    request.mutable_spec()->set_name(name);
    return request;
  }
  void PutJob(const std::string& name, v1::JobState state) {
    v1::Job job;
    job.mutable_status()->set_job(name);
    job.mutable_status()->set_state(state);
    service_.PutJob(job);
  }

  FakeCoordinatorService service_;
  int outages_ = 0;
};

TEST_F(CoordinatorClientTest, GivesWhatTheCoordinatorAnswers) {
  PutJob("a", v1::JOB_STATE_RUNNING);
  v1::WorkerDescription worker;
  worker.set_name("worker-0");
  service_.PutWorker(worker);
  CoordinatorClient client = Client();
  EXPECT_EQ(client.GetJob("a")->status().state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(client.ListJobs()->jobs_size(), 1);
  EXPECT_EQ(client.ListWorkers()->workers(0).name(), "worker-0");
  EXPECT_EQ(client.GetVersion()->build_version(), "1.2.3");
  EXPECT_EQ(outages_, 0);
}

TEST_F(CoordinatorClientTest, PassesTheCoordinatorsErrorsOn) {
  PutJob("a", v1::JOB_STATE_SUCCEEDED);
  CoordinatorClient client = Client();
  EXPECT_EQ(client.GetJob("none").status(), absl::NotFoundError("no job named none"));
  EXPECT_TRUE(absl::IsFailedPrecondition(client.CancelJob("a")));
  EXPECT_TRUE(absl::IsAlreadyExists(client.SubmitJob(Submission("a")).status()));
  EXPECT_EQ(outages_, 0);
}

TEST_F(CoordinatorClientTest, CallsAgainWhenThereWasNoAnswer) {
  PutJob("a", v1::JOB_STATE_RUNNING);
  service_.Fail("GetJob", absl::StatusCode::kUnavailable);
  service_.Fail("GetJob", absl::StatusCode::kDeadlineExceeded);
  service_.Fail("GetJob", absl::StatusCode::kCancelled);
  EXPECT_TRUE(Client().GetJob("a").ok());
  EXPECT_EQ(service_.calls().count["GetJob"], 4);
  EXPECT_EQ(outages_, 1);
}

TEST_F(CoordinatorClientTest, OutlivesARestart) {
  PutJob("a", v1::JOB_STATE_RUNNING);
  CoordinatorClient client = Client();
  EXPECT_TRUE(client.GetJob("a").ok());
  service_.Stop();
  service_.Start();
  EXPECT_TRUE(client.GetJob("a").ok());
}

TEST_F(CoordinatorClientTest, GivesUpWithTheAddress) {
  service_.Stop();
  const absl::Status status = Client(absl::Milliseconds(120)).ListJobs().status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(service_.address()));
  EXPECT_EQ(outages_, 1);
}

TEST_F(CoordinatorClientTest, IsInterruptibleBetweenCallsAndWithinOne) {
  bool keep_on = true;
  CoordinatorClient client({.address = service_.address(),
                            .retry_for = absl::Hours(1),
                            .attempt_timeout = absl::Hours(1),
                            .on_outage = [&](const absl::Status&) { keep_on = false; },
                            .keep_on = [&] { return keep_on; }});
  service_.Fail("ListJobs", absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::IsCancelled(client.ListJobs().status()));

  const TemporaryDirectory directory;
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  const std::string path = directory.Path("socket");
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int silent = socket(AF_UNIX, SOCK_STREAM, 0);  // takes connections, and says nothing
  ASSERT_EQ(bind(silent, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(silent, 1), 0);
  CoordinatorClient waiting(
      {.address = "unix:" + path, .retry_for = absl::Hours(1), .attempt_timeout = absl::Hours(1), .keep_on = [] {
         return false;
       }});
  EXPECT_TRUE(absl::IsCancelled(waiting.ListJobs().status()));
  close(silent);
}

TEST_F(CoordinatorClientTest, ASubmissionMadeTwiceIsOneJob) {
  service_.Fail("SubmitJob", absl::StatusCode::kUnavailable, When::kAfter);
  EXPECT_EQ(*Client().SubmitJob(Submission("a")), "a");
  const FakeCoordinatorService::Calls calls = service_.calls();
  ASSERT_THAT(calls.submissions, SizeIs(2));
  EXPECT_EQ(calls.submissions[0].submission_id(), calls.submissions[1].submission_id());
  EXPECT_THAT(calls.submissions[0].submission_id(), SizeIs(32));
}

TEST_F(CoordinatorClientTest, SubmissionsAreDifferentUnlessTheUserSaysSo) {
  CoordinatorClient client = Client();
  ASSERT_TRUE(client.SubmitJob(Submission("a")).ok());
  ASSERT_TRUE(client.SubmitJob(Submission("b")).ok());
  v1::SubmitJobRequest named = Submission("c");
  named.set_submission_id("mine");
  ASSERT_TRUE(client.SubmitJob(named).ok());
  const FakeCoordinatorService::Calls calls = service_.calls();
  EXPECT_NE(calls.submissions[0].submission_id(), calls.submissions[1].submission_id());
  EXPECT_EQ(calls.submissions[2].submission_id(), "mine");
}

TEST_F(CoordinatorClientTest, AChangeWhoseAnswerWasLostIsNoFailure) {
  PutJob("a", v1::JOB_STATE_RUNNING);
  service_.Fail("CancelJob", absl::StatusCode::kUnavailable, When::kAfter);
  EXPECT_EQ(Client().CancelJob("a"), absl::OkStatus());
  EXPECT_THAT(service_.calls().changes, ElementsAre("cancel a", "cancel a"));

  PutJob("b", v1::JOB_STATE_PAUSED);
  service_.Fail("ResumeJob", absl::StatusCode::kUnavailable, When::kAfter);
  EXPECT_EQ(Client().ResumeJob("b"), absl::OkStatus());
}

TEST_F(CoordinatorClientTest, AChangeThatAnotherForestalledIsOne) {
  PutJob("a", v1::JOB_STATE_SUCCEEDED);
  service_.Fail("CancelJob", absl::StatusCode::kUnavailable, When::kBefore);
  EXPECT_TRUE(absl::IsFailedPrecondition(Client().CancelJob("a")));
}

}  // namespace
}  // namespace stagecoach
