#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/testing/decide_harness.h"

namespace stagecoach {
namespace {

// Feeds inputs in an order that a seed decides: losses, failures, duplicates, stale messages, restarts.
class RandomScript {
 public:
  explicit RandomScript(uint32_t seed) : random_(seed) {}

  void Run(int num_inputs) {
    for (int i = 0; i < num_inputs; ++i) Next();
  }
  const DecideHarness& harness() const { return harness_; }

 private:
  uint32_t Below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }
  bool OneIn(uint32_t times) { return Below(times) == 0; }

  void Next() {
    harness_.now += absl::Milliseconds(Below(50));
    const uint32_t choice = Below(200);
    if (choice < 8) {
      ConnectOne();
    } else if (choice < 9) {
      LoseOne();
    } else if (choice < 13) {
      harness_.Feed(JobRequested{1, SmallSpec(absl::StrCat("job", Below(4))), ""});
    } else if (choice < 14) {
      harness_.Feed(CancelRequested{2, JobId(absl::StrCat("job", Below(4)))});
    } else if (choice < 16) {
      harness_.Feed(Tick{});
    } else if (choice < 17 && OneIn(4)) {
      harness_.Restart();
      harness_.workers.clear();
    } else if (choice < 40) {
      FinishEffects();
    } else if (choice < 50) {
      SayAgain();
    } else {
      StepOne();
    }
  }

  void ConnectOne() {
    const std::string name = absl::StrCat("w", Below(4));
    if (!harness_.workers.contains(name) || OneIn(20)) harness_.Connect(name, ++last_incarnation_);
  }
  void LoseOne() {
    if (!harness_.workers.empty()) harness_.Lose(AnyWorker());
  }
  void FinishEffects() {
    if (harness_.planning.has_value()) {
      const auto num_workers = static_cast<uint32_t>(harness_.planning->workers.size());
      if (OneIn(10)) {
        harness_.FinishPlanning(absl::InternalError("no plan"), kReasonPlanningFailed);
      } else {
        harness_.FinishPlanning(SmallPlan(num_workers, Below(2) * 5));
      }
    }
    const absl::Status status = OneIn(10) ? absl::ResourceExhaustedError("disk full") : absl::OkStatus();
    if (harness_.directory.has_value()) {
      harness_.FinishDirectory(status.ok() ? absl::StatusOr<std::string>("/checkpoints/x") : status);
    }
    if (harness_.manifest.has_value()) harness_.FinishManifest(status);
  }
  // A message of the past, as a network or a zombie may deliver it.
  void SayAgain() {
    if (said_.empty()) return;
    const auto& [name, message] = said_[Below(static_cast<uint32_t>(said_.size()))];
    harness_.Say(name, message);
  }
  void StepOne() {
    if (harness_.workers.empty()) return;
    const std::string name = AnyWorker();
    auto& messages = harness_.inbox[name];
    if (messages.empty()) return;
    const v1::CoordinatorMessage message = messages.front();
    messages.pop_front();
    auto answer = harness_.workers.at(name)->Answer(message);
    if (!answer.has_value()) return;
    if (answer->has_step_prepared() && OneIn(6)) answer->mutable_step_prepared()->set_num_non_finite(1);
    if (OneIn(150)) {
      answer->mutable_failure()->set_code(
          static_cast<int>(OneIn(2) ? absl::StatusCode::kUnavailable : absl::StatusCode::kInternal));
    }
    said_.emplace_back(name, *answer);
    harness_.Say(name, *answer);
  }
  std::string AnyWorker() {
    auto worker = harness_.workers.begin();
    std::advance(worker, Below(static_cast<uint32_t>(harness_.workers.size())));
    return worker->first;
  }

  DecideHarness harness_;
  std::mt19937 random_;
  uint64_t last_incarnation_ = 0;
  std::vector<std::pair<std::string, v1::WorkerMessage>> said_;
};

class ReplayTest : public testing::TestWithParam<uint32_t> {};

TEST_P(ReplayTest, TheJournalGivesBackTheDurablePart) {
  RandomScript script(GetParam());
  for (int part = 0; part < 20; ++part) {
    script.Run(50);
    ASSERT_EQ(DurableText(Replay(script.harness().journal)), DurableText(script.harness().state));
  }
}

TEST_P(ReplayTest, NoWorkerIsInTwoJobsAndEveryStepIsPublishedOnceInOrder) {
  RandomScript script(GetParam());
  for (int part = 0; part < 20; ++part) {
    script.Run(50);
    std::set<WorkerId> taken;
    for (const auto& [id, job] : script.harness().state.jobs()) {
      if (HasEnded(job.history.state)) {
        ASSERT_EQ(job.progress.phase, Phase::kNone);
      }
      if (job.progress.members == nullptr) continue;
      for (const MemberId& member : *job.progress.members) {
        ASSERT_TRUE(taken.insert(member.worker).second);
        ASSERT_EQ(script.harness().state.workers().at(member.worker).job, id);
      }
    }
    for (const auto& [id, events] : script.harness().events_of) {
      for (size_t i = 0; i < events.size(); ++i) ASSERT_EQ(events[i].step(), i + 1) << id;
      const uint64_t committed = script.harness().job(id).history.last_commit.step();
      ASSERT_EQ(events.size(), committed);
    }
  }
}

TEST(ReplaySeedsTest, TheSeedsReachEveryEnd) {
  std::set<v1::JobState> ends;
  std::set<std::string> reasons;
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    RandomScript script(seed);
    script.Run(1000);
    for (const auto& [id, job] : script.harness().state.jobs()) {
      ends.insert(job.history.state);
      if (HasEnded(job.history.state)) reasons.insert(job.history.reason);
    }
  }
  for (const v1::JobState state : {v1::JOB_STATE_SUCCEEDED, v1::JOB_STATE_FAILED, v1::JOB_STATE_CANCELLED}) {
    EXPECT_TRUE(ends.contains(state)) << JobStateName(state);
  }
  for (const char* reason : {kReasonWorkerFailed, kReasonWorkerLost, kReasonCheckpointFailed, kReasonPlanningFailed,
                             kReasonCoordinatorRestarted, kReasonCompleted, kReasonCancelRequested}) {
    EXPECT_TRUE(reasons.contains(reason)) << reason;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ReplayTest, testing::Range(1u, 41u));

TEST(StateCheckTest, RefusesEntriesThatDoNotFollow) {
  DecideHarness harness;
  harness.Connect("a");
  const JobId job = harness.Submit(SmallSpec());
  harness.FinishPlanning(SmallPlan(1));
  harness.RunUntil([&] { return harness.job(job).history.last_commit.step() == 2; });
  const auto next = [&] {
    v1::JournalEntry entry;
    entry.set_sequence(harness.state.last_sequence() + 1);
    entry.set_coordinator_term(1);
    return entry;
  };
  const auto code = [&](const v1::JournalEntry& entry) { return harness.state.Check(entry).code(); };
  constexpr auto kRefused = absl::StatusCode::kFailedPrecondition;

  v1::JournalEntry commit = next();
  commit.mutable_step_committed()->set_job(job.value());
  commit.mutable_step_committed()->set_epoch(1);
  commit.mutable_step_committed()->mutable_record()->set_step(3);
  EXPECT_EQ(code(commit), absl::StatusCode::kOk);
  commit.set_sequence(harness.state.last_sequence());
  EXPECT_EQ(code(commit), kRefused);
  commit.set_sequence(harness.state.last_sequence() + 1);
  commit.set_coordinator_term(0);
  EXPECT_EQ(code(commit), kRefused);
  commit.set_coordinator_term(1);
  commit.mutable_step_committed()->mutable_record()->set_step(4);
  EXPECT_EQ(code(commit), absl::StatusCode::kOk);  // learned from a worker: step 3 may be lost
  commit.mutable_step_committed()->mutable_event();
  EXPECT_EQ(code(commit), kRefused);
  commit.mutable_step_committed()->mutable_record()->set_step(3);
  commit.mutable_step_committed()->set_epoch(2);
  EXPECT_EQ(code(commit), kRefused);

  v1::JournalEntry state = next();
  state.mutable_job_state_changed()->set_job(job.value());
  state.mutable_job_state_changed()->set_state(v1::JOB_STATE_QUEUED);
  EXPECT_EQ(code(state), kRefused);
  state.mutable_job_state_changed()->set_job("nobody");
  EXPECT_EQ(code(state), kRefused);
  v1::JournalEntry epoch = next();
  epoch.mutable_epoch_started()->set_job(job.value());
  epoch.mutable_epoch_started()->mutable_placement()->set_epoch(1);
  EXPECT_EQ(code(epoch), kRefused);
  v1::JournalEntry checkpoint = next();
  checkpoint.mutable_checkpoint_completed()->set_job(job.value());
  checkpoint.mutable_checkpoint_completed()->set_step(1);
  EXPECT_EQ(code(checkpoint), kRefused);
  EXPECT_EQ(code(next()), kRefused);
}

}  // namespace
}  // namespace stagecoach
