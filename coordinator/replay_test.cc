#include <gtest/gtest.h>

#include <algorithm>
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

  // All goes well from now on, for long enough.
  void Settle() {
    for (int round = 0; round < 30; ++round) {
      for (const char* name : {"w0", "w1", "w2", "w3"}) {
        if (!harness_.workers.contains(name)) harness_.Connect(name, ++last_incarnation_);
        if (!harness_.IsConnected(name)) harness_.Dial(name);
      }
      for (uint32_t job = 0; job < 4; ++job) harness_.Feed(ResumeRequested{2, JobId(absl::StrCat("job", job))});
      if (harness_.planning.has_value()) {
        harness_.FinishPlanning(SmallPlan(static_cast<uint32_t>(harness_.planning->workers.size()), 5));
      }
      harness_.RunUntilQuiet();
      harness_.Pass(absl::Seconds(3));
    }
  }

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
    } else if (choice < 15) {
      AskOne();
    } else if (choice < 16) {
      harness_.Feed(Tick{});
    } else if (choice < 17 && OneIn(4)) {
      harness_.Restart();
      if (OneIn(4)) harness_.workers.clear();
      for (const char* name : {"w0", "w1", "w2", "w3"}) {
        if (harness_.workers.contains(name) && !OneIn(8)) harness_.Dial(name);
      }
    } else if (choice < 18 && OneIn(4)) {
      BreakOne();
    } else if (choice < 19 && OneIn(4)) {
      LeaveOne();
    } else if (choice < 20 && OneIn(10)) {
      harness_.Pass(absl::Seconds(3 * Below(8)));
    } else if (choice < 40) {
      FinishEffects();
    } else if (choice < 50) {
      SayAgain();
    } else {
      StepOne();
    }
  }

  void AskOne() {
    const JobId job(absl::StrCat("job", Below(4)));
    const uint32_t what = Below(4);
    if (what == 0) harness_.Feed(CancelRequested{2, job});
    if (what == 1) harness_.Feed(PauseRequested{2, job});
    if (what >= 2) harness_.Feed(ResumeRequested{2, job});
  }
  void ConnectOne() {
    const std::string name = absl::StrCat("w", Below(4));
    if (!harness_.workers.contains(name) || OneIn(20)) {
      harness_.Connect(name, ++last_incarnation_);
    } else if (!harness_.IsConnected(name)) {
      harness_.Dial(name);
    }
  }
  void BreakOne() {
    if (harness_.workers.empty()) return;
    const std::string name = AnyWorker();
    harness_.Break(name);
    if (OneIn(2)) harness_.Dial(name);
  }
  void LeaveOne() {
    if (harness_.workers.empty()) return;
    const std::string name = AnyWorker();
    v1::WorkerMessage message;
    message.mutable_fence()->set_incarnation(harness_.workers.at(name)->incarnation().value());
    message.mutable_fence()->set_coordinator_term(harness_.state.term().value());
    message.mutable_leaving()->set_reason("SIGTERM");
    harness_.Say(name, message);
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
    if (!harness_.IsConnected(name)) return;
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
        const auto worker = script.harness().state.workers().find(member.worker);
        if (worker != script.harness().state.workers().end()) {
          ASSERT_EQ(worker->second.job, id);
        } else {
          ASSERT_EQ(job.progress.phase, Phase::kReattaching);
        }
      }
    }
    for (const auto& [id, events] : script.harness().events_of) {
      for (size_t i = 0; i < events.size(); ++i) ASSERT_EQ(events[i].step(), i + 1) << id;
      const uint64_t committed = script.harness().job(id).history.last_commit.step();
      ASSERT_EQ(events.size(), committed);
    }
  }
}

TEST_P(ReplayTest, EveryStateHasAReasonAndAMessage) {
  RandomScript script(GetParam());
  script.Run(1000);
  for (const v1::JobStatus& status : script.harness().statuses) {
    EXPECT_FALSE(status.reason().empty()) << status.ShortDebugString();
    EXPECT_FALSE(status.message().empty()) << status.ShortDebugString();
  }
}

// However a script has ended: when workers are there and messages arrive again, every job comes to an end.
TEST_P(ReplayTest, NoJobIsStuck) {
  RandomScript script(GetParam());
  script.Run(300);
  script.Settle();
  for (const auto& [id, job] : script.harness().state.jobs()) {
    EXPECT_TRUE(HasEnded(job.history.state)) << id << " is " << JobStateName(job.history.state) << " in phase "
                                             << static_cast<int>(job.progress.phase) << ": " << job.history.message;
  }
}

TEST(ReplaySeedsTest, TheSeedsReachEveryEnd) {
  std::set<v1::JobState> ends, seen;
  uint64_t most_epochs_of_success = 0;
  std::set<std::string> reasons;
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    RandomScript script(seed);
    script.Run(1000);
    for (const v1::JobStatus& status : script.harness().statuses) seen.insert(status.state());
    for (const auto& [id, job] : script.harness().state.jobs()) {
      ends.insert(job.history.state);
      if (job.history.state == v1::JOB_STATE_SUCCEEDED) {
        most_epochs_of_success = std::max(most_epochs_of_success, job.history.num_epochs);
      }
      if (HasEnded(job.history.state)) reasons.insert(job.history.reason);
    }
  }
  EXPECT_GE(most_epochs_of_success, 2u);
  for (const v1::JobState state : {v1::JOB_STATE_RECOVERING, v1::JOB_STATE_PAUSED, v1::JOB_STATE_CANCELLING}) {
    EXPECT_TRUE(seen.contains(state)) << JobStateName(state);
  }
  for (const v1::JobState state : {v1::JOB_STATE_SUCCEEDED, v1::JOB_STATE_FAILED, v1::JOB_STATE_CANCELLED}) {
    EXPECT_TRUE(ends.contains(state)) << JobStateName(state);
  }
  for (const char* reason : {kReasonWorkerFailed, kReasonWorkerLost, kReasonCheckpointFailed, kReasonPlanningFailed,
                             kReasonCompleted, kReasonCancelRequested}) {
    EXPECT_TRUE(reasons.contains(reason)) << reason;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ReplayTest, testing::Range(1u, 41u));

// After the second of a job's steps.
class StateCheckTest : public testing::Test {
 protected:
  StateCheckTest() {
    harness_.Connect("a");
    job_ = harness_.Submit(SmallSpec());
    harness_.FinishPlanning(SmallPlan(1));
    harness_.RunUntil([&] { return harness_.job(job_).history.last_commit.step() == 2; });
  }
  v1::JournalEntry Next() const {
    v1::JournalEntry entry;
    entry.set_sequence(harness_.state.last_sequence() + 1);
    entry.set_coordinator_term(1);
    return entry;
  }
  v1::JournalEntry Commit(uint64_t epoch, uint64_t step) const {
    v1::JournalEntry entry = Next();
    entry.mutable_step_committed()->set_job(job_.value());
    entry.mutable_step_committed()->set_epoch(epoch);
    entry.mutable_step_committed()->mutable_record()->set_step(step);
    return entry;
  }
  absl::StatusCode Code(const v1::JournalEntry& entry) const { return harness_.state.Check(entry).code(); }

  static constexpr auto kRefused = absl::StatusCode::kFailedPrecondition;
  DecideHarness harness_;
  JobId job_;
};

TEST_F(StateCheckTest, RefusesEntriesThatDoNotFollow) {
  v1::JournalEntry commit = Commit(1, 3);
  EXPECT_EQ(Code(commit), absl::StatusCode::kOk);
  commit.set_sequence(harness_.state.last_sequence());
  EXPECT_EQ(Code(commit), kRefused);
  commit.set_sequence(harness_.state.last_sequence() + 1);
  commit.set_coordinator_term(0);
  EXPECT_EQ(Code(commit), kRefused);
  commit.set_coordinator_term(1);
  commit.mutable_step_committed()->mutable_record()->set_step(4);
  EXPECT_EQ(Code(commit), absl::StatusCode::kOk);  // learned from a worker: step 3 may be lost
  commit.mutable_step_committed()->mutable_event();
  EXPECT_EQ(Code(commit), kRefused);
  commit.mutable_step_committed()->mutable_record()->set_step(3);
  commit.mutable_step_committed()->set_epoch(2);
  EXPECT_EQ(Code(commit), kRefused);

  v1::JournalEntry state = Next();
  state.mutable_job_state_changed()->set_job(job_.value());
  state.mutable_job_state_changed()->set_state(v1::JOB_STATE_QUEUED);
  EXPECT_EQ(Code(state), kRefused);
  state.mutable_job_state_changed()->set_job("nobody");
  EXPECT_EQ(Code(state), kRefused);
  v1::JournalEntry epoch = Next();
  epoch.mutable_epoch_started()->set_job(job_.value());
  epoch.mutable_epoch_started()->mutable_placement()->set_epoch(1);
  EXPECT_EQ(Code(epoch), kRefused);
  v1::JournalEntry checkpoint = Next();
  checkpoint.mutable_checkpoint_completed()->set_job(job_.value());
  checkpoint.mutable_checkpoint_completed()->set_step(99);
  EXPECT_EQ(Code(checkpoint), kRefused);
  EXPECT_EQ(Code(Next()), kRefused);
}

TEST_F(StateCheckTest, OfAnEndedEpochTakesOnlyWhatAWorkerHasHadBefore) {
  v1::JournalEntry end = Next();
  end.mutable_epoch_ended()->set_job(job_.value());
  end.mutable_epoch_ended()->set_epoch(1);
  harness_.state.Apply(end);
  EXPECT_EQ(Code(Commit(1, 3)), absl::StatusCode::kOk);
  EXPECT_EQ(Code(Commit(2, 3)), kRefused);
  v1::JournalEntry decided = Commit(1, 3);
  decided.mutable_step_committed()->mutable_event();
  EXPECT_EQ(Code(decided), kRefused);
}

}  // namespace
}  // namespace stagecoach
