// What a coordinator finds in its journal, and what it keeps there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "coordinator/jobs/job_state.h"
#include "coordinator/journal/memory_store.h"
#include "coordinator/testing/coordinator_test.h"
#include "formats/checkpoint.h"

namespace stagecoach {
namespace {

TEST_F(CoordinatorTest, ARestartTakesTheNextTermAndKnowsTheJobs) {
  const auto journal = std::make_shared<MemoryJournal>();
  JobId ended, queued;
  v1::Job before;
  {
    MemoryStore store(journal);
    const auto coordinator = Start(store);
    ended = *coordinator->SubmitJob(Submission(Spec(1)));
    ASSERT_TRUE(coordinator->FollowJob(All(ended), log_.follower()).ok());
    AddWorkers(*coordinator, 1);
    EXPECT_EQ(log_.WaitForEnd(), v1::JOB_STATE_SUCCEEDED);
    before = *coordinator->DescribeJob(ended);
    v1::JobSpec spec = Spec(2);
    spec.set_name("queued");
    queued = *coordinator->SubmitJob(Submission(spec));
    workers_.clear();
  }
  MemoryStore store(journal);
  const auto coordinator = Start(store);
  const v1::Job after = *coordinator->DescribeJob(ended);
  EXPECT_EQ(after.DebugString(), before.DebugString());

  JobWatch second;
  ASSERT_TRUE(coordinator->FollowJob(All(queued), second.follower()).ok());
  AddWorkers(*coordinator, 2);
  EXPECT_EQ(second.WaitForEnd(), v1::JOB_STATE_SUCCEEDED);
  const auto manifest = ReadManifest(files_, coordinator->DescribeJob(queued)->checkpoint_directory());
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->coordinator_term(), 2u);
  workers_.clear();
}

TEST_F(CoordinatorTest, ARestartedCoordinatorGoesOnWithTheSameWorkers) {
  constexpr uint64_t kSteps = 300;
  std::string digest;
  {
    const auto coordinator = Start(store_);
    const JobId job = *coordinator->SubmitJob(Submission(Spec(2, kSteps)));
    ASSERT_TRUE(coordinator->FollowJob(All(job), log_.follower()).ok());
    AddWorkers(*coordinator, 2);
    EXPECT_EQ(log_.WaitForEnd(), v1::JOB_STATE_SUCCEEDED);
    digest = coordinator->DescribeJob(job)->state_digest();
    workers_.clear();
  }
  const auto journal = std::make_shared<MemoryJournal>();
  JobId job;
  std::vector<uint64_t> steps;
  uint64_t token = 0;
  for (uint64_t life = 0; life < 4; ++life) {
    MemoryStore store(journal);
    const auto coordinator = Start(store);
    if (life == 0) {
      job = *coordinator->SubmitJob(Submission(Spec(2, kSteps)));
      AddWorkers(*coordinator, 2);
    } else {
      for (auto& [name, worker] : workers_) worker->Dial(*coordinator);
    }
    JobWatch watch;
    ASSERT_TRUE(coordinator->FollowJob(All(job, token), watch.follower()).ok());
    if (life < 3) {
      watch.WaitForStep(life * 20 + 5);
    } else {
      EXPECT_EQ(watch.WaitForEnd(), v1::JOB_STATE_SUCCEEDED);
      EXPECT_EQ(coordinator->DescribeJob(job)->recoveries(), 3u);
      EXPECT_EQ(coordinator->DescribeJob(job)->state_digest(), digest);
    }
    coordinator->Stop();
    for (auto& [name, worker] : workers_) worker->HangUp();
    for (const uint64_t step : watch.steps()) steps.push_back(step);
    token = watch.events().back().sequence();
  }
  std::vector<uint64_t> expected(kSteps);
  std::iota(expected.begin(), expected.end(), 1);
  EXPECT_EQ(steps, expected);
  workers_.clear();
}

TEST_F(CoordinatorTest, AJobDoesNotGoOnWithOtherData) {
  const auto journal = std::make_shared<MemoryJournal>();
  JobId job;
  {
    MemoryStore store(journal);
    const auto coordinator = Start(store);
    job = *coordinator->SubmitJob(Submission(Spec(2, /*steps=*/1'000'000'000)));
    AddWorkers(*coordinator, 2);
    JobWatch watch;
    ASSERT_TRUE(coordinator->FollowJob(All(job), watch.follower()).ok());
    watch.WaitForStep(1);
    coordinator->Stop();
    for (auto& [name, worker] : workers_) worker->HangUp();
  }
  ASSERT_TRUE(WriteFileAtomically(files_, directory_.Path("text.txt"), std::string(16 * 24, 'x') + "y").ok());
  MemoryStore store(journal);
  const auto coordinator = Start(store);
  for (auto& [name, worker] : workers_) worker->Dial(*coordinator);
  ASSERT_TRUE(coordinator->FollowJob(All(job), log_.follower()).ok());
  EXPECT_EQ(log_.WaitForEnd(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(coordinator->DescribeJob(job)->status().reason(), kReasonDataChanged);
  workers_.clear();
}

TEST_F(CoordinatorTest, EndedJobsAreForgottenWithTheirEventsLinesAndEntries) {
  const auto journal = std::make_shared<MemoryJournal>();
  const auto start = [&](Store& store) {
    return *Coordinator::Create({.store = store,
                                 .clock = clock_,
                                 .files = files_,
                                 .planner = PlanSmallJob,
                                 .fleet = {.keep_jobs = 2},
                                 .compaction = {.least_dropped = 1}});
  };
  uint64_t token = 0;
  {
    MemoryStore store(journal);
    const auto coordinator = start(store);
    for (const char* name : {"a", "b", "c"}) {
      v1::JobSpec spec = Spec(1);
      spec.set_name(name);
      const JobId job = *coordinator->SubmitJob(Submission(spec));
      JobWatch watch;
      ASSERT_TRUE(coordinator->FollowJob(All(job), watch.follower()).ok());
      ASSERT_TRUE(coordinator->CancelJob(job).ok());
      if (token == 0) {
        watch.WaitForEnd();
        token = watch.events().back().sequence();
      }
    }
    for (const absl::Status& status :
         {coordinator->DescribeJob(JobId("a")).status(), coordinator->CancelJob(JobId("a")),
          coordinator->FollowJob(All(JobId("a"), token), log_.follower()).status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
      EXPECT_THAT(std::string(status.message()),
                  testing::HasSubstr("has been forgotten: the 2 newest jobs that have ended are kept"));
    }
    // The name and the number are free again; a token of the old one is not one of the new one's.
    v1::JobSpec spec = Spec(1);
    spec.set_name("a");
    EXPECT_EQ(*coordinator->SubmitJob(Submission(spec)), JobId("a"));
    EXPECT_EQ(coordinator->FollowJob(All(JobId("a"), token), log_.follower()).status().code(),
              absl::StatusCode::kNotFound);
  }
  MemoryStore store(journal);
  const auto coordinator = start(store);
  EXPECT_EQ(coordinator->DescribeJob(JobId("a"))->status().state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(coordinator->ListJobs()->jobs_size(), 3);
  EXPECT_TRUE(store
                  .ReadAll([&](const v1::JournalEntry& entry) {
                    EXPECT_TRUE(entry.sequence() > token || entry.has_coordinator_started()) << entry.DebugString();
                    return absl::OkStatus();
                  })
                  .ok());
}

TEST_F(CoordinatorTest, ALongJournalIsMadeSmallerAtStart) {
  const auto journal = std::make_shared<MemoryJournal>();
  const auto num_entries = [&] {
    int number = 0;
    EXPECT_TRUE(MemoryStore(journal)
                    .ReadAll([&](const v1::JournalEntry&) {
                      ++number;
                      return absl::OkStatus();
                    })
                    .ok());
    return number;
  };
  JobId job;
  v1::Job before;
  {
    MemoryStore store(journal);
    const auto coordinator = Start(store);
    job = *coordinator->SubmitJob(Submission(Spec(1, 300)));
    ASSERT_TRUE(coordinator->FollowJob(All(job), log_.follower()).ok());
    AddWorkers(*coordinator, 1);
    EXPECT_EQ(log_.WaitForEnd(), v1::JOB_STATE_SUCCEEDED);
    before = *coordinator->DescribeJob(job);
    workers_.clear();
  }
  EXPECT_GT(num_entries(), 300);
  for (int i = 0; i < 2; ++i) {
    MemoryStore store(journal);
    const auto coordinator = Start(store);
    EXPECT_LT(num_entries(), 100);
    EXPECT_EQ(coordinator->DescribeJob(job)->DebugString(), before.DebugString());
  }
}

TEST_F(CoordinatorTest, TwoCoordinatorsCannotHaveOneJournal) {
  const auto journal = std::make_shared<MemoryJournal>();
  MemoryStore first(journal), second(journal);
  const auto coordinator = Start(first);
  EXPECT_EQ(
      Coordinator::Create({.store = second, .clock = clock_, .files = files_, .planner = PlanSmallJob}).status().code(),
      absl::StatusCode::kFailedPrecondition);
}

TEST_F(CoordinatorTest, AJournalThatContradictsItselfIsRefused) {
  const auto journal = std::make_shared<MemoryJournal>();
  {
    MemoryStore store(journal);
    ASSERT_TRUE(store.Lock().ok());
    v1::JournalEntry entry;
    entry.set_sequence(1);
    entry.mutable_step_committed()->set_job("never submitted");
    ASSERT_TRUE(store.Append(entry, SyncMode::kSynced).ok());
  }
  MemoryStore store(journal);
  const auto coordinator =
      Coordinator::Create({.store = store, .clock = clock_, .files = files_, .planner = PlanSmallJob});
  EXPECT_EQ(coordinator.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(coordinator.status().message()), testing::HasSubstr("never submitted"));
}

}  // namespace
}  // namespace stagecoach
