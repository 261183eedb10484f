#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "coordinator/decide.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/testing/decide_harness.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;

std::vector<std::string> MembersOf(const DecideHarness& harness, const JobId& job) {
  std::vector<std::string> names;
  const auto& members = harness.job(job).progress.members;
  if (members == nullptr) return names;
  for (const MemberId& member : *members) names.push_back(member.worker.value());
  return names;
}

TEST(DecideQueueTest, AJobWaitsForAsManyWorkersAsItsDegree) {
  DecideHarness harness;
  v1::JobSpec spec = SmallSpec();
  spec.mutable_parallelism()->set_pipeline_parallel_degree(2);
  const JobId job = harness.Submit(spec);
  harness.Connect("a");
  EXPECT_EQ(harness.job(job).history.reason, kReasonWaitingForWorkers);
  EXPECT_THAT(harness.job(job).history.message, HasSubstr("needs 2 idle worker(s)"));
  EXPECT_FALSE(harness.planning.has_value());
  harness.Connect("b");
  ASSERT_TRUE(harness.planning.has_value());
  EXPECT_EQ(harness.job(job).history.state, v1::JOB_STATE_PREPARING);
}

TEST(DecideQueueTest, AFixedDegreeTakesNoMoreThanItNeeds) {
  DecideHarness harness;
  for (const char* name : {"a", "b", "c"}) harness.Connect(name);
  v1::JobSpec spec = SmallSpec();
  spec.mutable_parallelism()->set_pipeline_parallel_degree(2);
  EXPECT_EQ(MembersOf(harness, harness.Submit(spec)), (std::vector<std::string>{"a", "b"}));
}

TEST(DecideQueueTest, AutoTakesAllIdleWorkersAndAtLeastResourcesWorkers) {
  DecideHarness harness;
  v1::JobSpec spec = SmallSpec();
  spec.mutable_resources()->set_workers(2);
  const JobId job = harness.Submit(spec);
  harness.Connect("a");
  EXPECT_TRUE(MembersOf(harness, job).empty());
  harness.Connect("b");
  EXPECT_EQ(MembersOf(harness, job), (std::vector<std::string>{"a", "b"}));

  harness.Connect("c");
  harness.Connect("d");
  harness.Connect("e");
  spec.set_name("second");
  EXPECT_EQ(MembersOf(harness, harness.Submit(spec)), (std::vector<std::string>{"c", "d", "e"}));
}

TEST(DecideQueueTest, AGangIsOfOneNumericsClass) {
  DecideHarness harness;
  v1::JobSpec spec = SmallSpec();
  spec.mutable_resources()->set_workers(2);
  harness.Connect("a", 1, "avx2");
  harness.Connect("b", 1, "avx512");
  const JobId job = harness.Submit(spec);
  EXPECT_TRUE(MembersOf(harness, job).empty());
  harness.Connect("c", 1, "avx512");
  EXPECT_EQ(MembersOf(harness, job), (std::vector<std::string>{"b", "c"}));
}

TEST(DecideQueueTest, OnlyAJobThatAsksForThemGetsSimulatedWorkers) {
  DecideHarness harness;
  for (const char* name : {"a", "b"}) harness.Connect(name, 1, "simulated/cpu", "simulated");
  v1::JobSpec spec = SmallSpec();
  spec.mutable_parallelism()->set_pipeline_parallel_degree(1);
  spec.mutable_resources()->set_device("cpu");
  const JobId real = harness.Submit(spec);
  EXPECT_TRUE(MembersOf(harness, real).empty());
  harness.Connect("c");
  EXPECT_EQ(MembersOf(harness, real), (std::vector<std::string>{"c"}));
  harness.Connect("d");

  spec.set_name("modelled");
  spec.mutable_parallelism()->set_pipeline_parallel_degree(3);
  spec.mutable_resources()->set_device("simulated");
  const JobId modelled = harness.Submit(spec);
  EXPECT_THAT(harness.job(modelled).history.message,
              HasSubstr("needs 3 simulated idle worker(s) of one numerics class with at least 1 thread(s); 2 of 4"));
  harness.Connect("e", 1, "simulated/cpu", "simulated");
  EXPECT_EQ(MembersOf(harness, modelled), (std::vector<std::string>{"a", "b", "e"}));
}

TEST(DecideQueueTest, AnEpochOfSimulatedWorkersSaysWhatComesOfIt) {
  DecideHarness harness;
  harness.Connect("a", 1, "simulated/cpu", "simulated");
  v1::JobSpec spec = SmallSpec();
  spec.mutable_resources()->set_device("simulated");
  harness.Submit(spec);
  harness.FinishPlanning(SmallPlan(1));
  ASSERT_FALSE(harness.notes.empty());
  EXPECT_EQ(harness.notes.front().reason(), "EpochStarted");
  EXPECT_EQ(harness.notes.front().message(),
            "epoch 1 on a, which are simulated: what this job makes is no trained model");
}

TEST(DecideQueueTest, WhoWantsMoreThreadsThanAWorkerHasDoesNotGetIt) {
  DecideHarness harness;
  v1::JobSpec spec = SmallSpec();
  spec.mutable_resources()->set_threads_per_worker(3);
  harness.Connect("a");
  EXPECT_TRUE(MembersOf(harness, harness.Submit(spec)).empty());
}

TEST(DecideQueueTest, JobsStartInTheOrderOfTheirSubmission) {
  DecideHarness harness;
  v1::JobSpec spec = SmallSpec("big");
  spec.mutable_parallelism()->set_pipeline_parallel_degree(2);
  const JobId big = harness.Submit(spec);
  const JobId small = harness.Submit(SmallSpec("a small one"));
  harness.Connect("a");
  EXPECT_FALSE(harness.planning.has_value());  // the small one does not overtake
  harness.Connect("b");
  EXPECT_EQ(harness.planning->job, big);
  harness.FinishPlanning(SmallPlan(2));
  harness.RunUntil([&] { return harness.planning.has_value(); });
  EXPECT_EQ(harness.job(big).history.state, v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(harness.planning->job, small);
  EXPECT_EQ(MembersOf(harness, small), (std::vector<std::string>{"a", "b"}));
  harness.FinishPlanning(SmallPlan(2));
  harness.RunUntilQuiet();
  EXPECT_EQ(harness.job(small).history.state, v1::JOB_STATE_SUCCEEDED);
}

TEST(DecideQueueTest, AnActiveNameIsTakenAndAnEndedOneGetsANumber) {
  DecideHarness harness;
  const JobId first = harness.Submit(SmallSpec("gpt"));
  EXPECT_EQ(first.value(), "gpt");
  harness.Feed(JobRequested{2, SmallSpec("gpt"), ""});
  EXPECT_EQ(harness.answer->status().code(), absl::StatusCode::kAlreadyExists);
  harness.Feed(CancelRequested{3, first});
  EXPECT_EQ(harness.Submit(SmallSpec("gpt")).value(), "gpt-2");
}

TEST(DecideQueueTest, LargerPrioritiesLeaveTheQueueFirst) {
  DecideHarness harness;
  const auto submit = [&](const std::string& name, int32_t priority) {
    v1::JobSpec spec = SmallSpec(name);
    spec.mutable_limits()->set_priority(priority);
    return harness.Submit(spec);
  };
  const JobId low = submit("low", -1), first = submit("first", 0), second = submit("second", 0),
              high = submit("high", 7);
  harness.Connect("a");
  for (const JobId& next : {high, first, second, low}) {
    ASSERT_TRUE(harness.planning.has_value());
    EXPECT_EQ(harness.planning->job, next);
    harness.FinishPlanning(SmallPlan(1));
    harness.RunUntilQuiet();
  }
}

TEST(DecideQueueTest, TheSameSubmissionIsTheSameJob) {
  DecideHarness harness;
  v1::JobSpec spec = SmallSpec("gpt");
  (*spec.mutable_labels())["team"] = "a";
  (*spec.mutable_labels())["project"] = "b";
  const JobId job = harness.Submit(spec, "abc");
  const size_t entries = harness.journal.size();
  EXPECT_EQ(harness.Submit(spec, "abc"), job);
  harness.Restart();
  EXPECT_EQ(harness.Submit(spec, "abc"), job);
  EXPECT_EQ(harness.journal.size(), entries + 1);  // the restart's
  EXPECT_EQ(DescribeJob(harness.job(job)).submission_id(), "abc");

  spec.mutable_training()->set_steps(5);
  harness.Feed(JobRequested{2, spec, "abc"});
  EXPECT_EQ(harness.answer->status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(harness.answer->status().message()), HasSubstr("submission id abc is that of job gpt"));
  // Also when threads were resolved, and when the job has ended.
  harness.Feed(CancelRequested{3, job});
  spec.mutable_training()->set_steps(4);
  EXPECT_EQ(harness.Submit(spec, "abc"), job);
  EXPECT_EQ(harness.Submit(spec, "def").value(), "gpt-2");
}

TEST(DecideQueueTest, AJobWithoutANameIsRefused) {
  DecideHarness harness;
  harness.Feed(JobRequested{1, SmallSpec(""), ""});
  EXPECT_EQ(harness.answer->status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(harness.state.jobs().empty());
}

TEST(DecideQueueTest, AFailedPlanFailsTheJobWithItsReason) {
  DecideHarness harness;
  harness.Connect("a");
  const JobId job = harness.Submit(SmallSpec());
  harness.FinishPlanning(absl::InvalidArgumentError("data.train: /nowhere: no such file"), kReasonInvalidData);
  EXPECT_EQ(harness.job(job).history.state, v1::JOB_STATE_FAILED);
  EXPECT_EQ(harness.job(job).history.reason, kReasonInvalidData);
  EXPECT_EQ(harness.job(job).history.message, "data.train: /nowhere: no such file");
  EXPECT_FALSE(harness.state.workers().at(WorkerId("a")).job.has_value());
}

TEST(DecideQueueTest, APlanThatDoesNotFitTheJobFailsIt) {
  DecideHarness harness;
  harness.Connect("a");
  const JobId job = harness.Submit(SmallSpec());
  harness.FinishPlanning(SmallPlan(2));
  EXPECT_EQ(harness.job(job).history.reason, kReasonPlanningFailed);

  const JobId other = harness.Submit(SmallSpec("other"));
  auto plan = SmallPlan(1);
  plan->planned.plan.set_num_micro_batches(3);
  harness.FinishPlanning(plan);
  EXPECT_THAT(harness.job(other).history.message, HasSubstr("hold 6 samples, fewer than the 8 of a step"));
}

TEST(DecideQueueTest, ALossWhilePlanningPutsTheJobBack) {
  DecideHarness harness;
  harness.Connect("a");
  harness.Connect("b");
  v1::JobSpec spec = SmallSpec();
  spec.mutable_parallelism()->set_pipeline_parallel_degree(2);
  const JobId job = harness.Submit(spec);
  harness.Lose("a");
  EXPECT_EQ(harness.job(job).history.state, v1::JOB_STATE_QUEUED);
  EXPECT_FALSE(harness.state.workers().at(WorkerId("b")).job.has_value());
  harness.Connect("c");
  EXPECT_EQ(MembersOf(harness, job), (std::vector<std::string>{"b", "c"}));
}

TEST(DecideQueueTest, ALossOfAnIdleWorkerConcernsNobody) {
  DecideHarness harness;
  harness.Connect("a");
  const size_t entries = harness.journal.size();
  harness.Lose("a");
  EXPECT_EQ(harness.worker("a").presence, WorkerPresence::kLost);
  ASSERT_EQ(harness.journal.size(), entries + 1);
  EXPECT_EQ(harness.journal.back().worker_left().worker(), "a");
}

}  // namespace
}  // namespace stagecoach
