// Who follows jobs and logs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "coordinator/journal/memory_store.h"
#include "coordinator/testing/coordinator_test.h"

namespace stagecoach {
namespace {

TEST_F(CoordinatorTest, ALateFollowerGetsWhatWasAndTheEnd) {
  const auto coordinator = Start(store_);
  const JobId job = *coordinator->SubmitJob(Submission(Spec(1)));
  ASSERT_TRUE(coordinator->FollowJob(All(job), log_.follower()).ok());
  AddWorkers(*coordinator, 1);
  log_.WaitForEnd();
  JobWatch late;
  ASSERT_TRUE(coordinator->FollowJob(All(job), late.follower()).ok());
  EXPECT_EQ(late.WaitForEnd(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(late.steps(), log_.steps());
  workers_.clear();
}

TEST_F(CoordinatorTest, AFollowerCannotWaitForTheCoordinatorItself) {
  const auto coordinator = Start(store_);
  const JobId job = *coordinator->SubmitJob(Submission(Spec(1)));
  absl::Status inside;
  const auto on_event = [&](const v1::JobEvent&) {
    inside = coordinator->CancelJob(job);
    return absl::OkStatus();
  };
  ASSERT_TRUE(coordinator->FollowJob(All(job), {.on_event = on_event, .on_end = [](const absl::Status&) {}}).ok());
  coordinator->Stop();
  EXPECT_EQ(inside.code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(CoordinatorTest, StopTellsFollowersAndLaterCallers) {
  const auto coordinator = Start(store_);
  const JobId job = *coordinator->SubmitJob(Submission(Spec(1)));
  ASSERT_TRUE(coordinator->FollowJob(All(job), log_.follower()).ok());
  coordinator->Stop();
  EXPECT_EQ(log_.end()->code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(coordinator->SubmitJob(Submission(Spec(1))).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(coordinator->DescribeJob(job).status().code(), absl::StatusCode::kUnavailable);
  coordinator->Stop();
}

TEST_F(CoordinatorTest, LinesOfMembersReachThoseWhoFollowTheLog) {
  const auto coordinator = Start(store_);
  const JobId job = *coordinator->SubmitJob(Submission(Spec(1, /*steps=*/1'000'000'000)));
  ASSERT_TRUE(coordinator->FollowJob(All(job), log_.follower()).ok());
  AddWorkers(*coordinator, 1);
  log_.WaitForStep(1);
  MessageQueue<std::string> lines(10);
  v1::FollowLogsRequest request;
  request.set_job(job.value());
  request.set_follow(true);
  const auto follower = LogFollower{
      .on_line = [&](const v1::LogRecord& record) { return lines.Push(record.worker() + ": " + record.line().text()); },
      .on_end = [&](const absl::Status&) { lines.Close(); }};
  ASSERT_TRUE(coordinator->FollowLogs(request, follower).ok());
  v1::WorkerMessage message;
  message.mutable_fence()->set_job(job.value());
  message.mutable_log_lines()->add_lines()->set_text("hello");
  workers_["w0"]->Say(message);
  EXPECT_EQ(*lines.Pop(kLong), "w0: hello");
  ASSERT_TRUE(coordinator->CancelJob(job).ok());
  EXPECT_TRUE(absl::IsUnavailable(lines.Pop(kLong).status()));  // ended
  workers_.clear();
}

TEST_F(CoordinatorTest, WhoUnfollowsHearsNothingMore) {
  const auto coordinator = Start(store_);
  const JobId job = *coordinator->SubmitJob(Submission(Spec(1)));
  const FollowerId follower = *coordinator->FollowJob(All(job), log_.follower());
  coordinator->Unfollow(follower);
  ASSERT_TRUE(coordinator->DescribeJob(job).ok());  // it was handled
  const size_t heard = log_.events().size();
  ASSERT_TRUE(coordinator->CancelJob(job).ok());
  coordinator->Stop();
  EXPECT_EQ(log_.events().size(), heard);
  EXPECT_FALSE(log_.end().has_value());
}

}  // namespace
}  // namespace stagecoach
