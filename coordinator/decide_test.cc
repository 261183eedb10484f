#include "coordinator/decide.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/jobs/job_state.h"
#include "coordinator/testing/decide_harness.h"

namespace stagecoach {
namespace {

using Message = v1::CoordinatorMessage;
using testing::ElementsAre;
using testing::HasSubstr;

class DecideTest : public testing::Test {
 protected:
  // Three workers and a job that waits for its plan.
  JobId SubmitToThree(const v1::JobSpec& spec = SmallSpec()) {
    for (const char* name : {"a", "b", "c"}) harness_.Connect(name);
    return harness_.Submit(spec);
  }
  // A job whose first RunStep has just been sent.
  JobId StartOnThree(const v1::JobSpec& spec = SmallSpec(), uint64_t num_validation_samples = 0) {
    const JobId job = SubmitToThree(spec);
    harness_.FinishPlanning(SmallPlan(3, num_validation_samples));
    harness_.RunUntil([&] { return PhaseOf(job) == Phase::kTraining; });
    EXPECT_EQ(StateOf(job), v1::JOB_STATE_RUNNING);
    return job;
  }
  v1::JobState StateOf(const JobId& job) const { return harness_.job(job).history.state; }
  Phase PhaseOf(const JobId& job) const { return harness_.job(job).progress.phase; }
  std::vector<v1::JobState> StatesSeen() const {
    std::vector<v1::JobState> states;
    for (const v1::JobStatus& status : harness_.statuses) {
      if (states.empty() || states.back() != status.state()) states.push_back(status.state());
    }
    return states;
  }
  size_t Count(const std::string& worker, Message::MessageCase kind) const {
    return harness_.Sent(worker, kind).size();
  }

  DecideHarness harness_;
};

TEST_F(DecideTest, RunsAJobToItsEnd) {
  const JobId job = SubmitToThree();
  ASSERT_TRUE(harness_.planning.has_value());
  EXPECT_EQ(harness_.planning->workers.size(), 3u);
  harness_.FinishPlanning(SmallPlan(3));
  harness_.RunUntilQuiet();

  EXPECT_THAT(StatesSeen(), ElementsAre(v1::JOB_STATE_QUEUED, v1::JOB_STATE_PREPARING, v1::JOB_STATE_RUNNING,
                                        v1::JOB_STATE_SUCCEEDED));
  ASSERT_EQ(harness_.events.size(), 4u);
  for (uint64_t step = 1; step <= 4; ++step) {
    EXPECT_EQ(harness_.events[step - 1].step(), step);
    EXPECT_DOUBLE_EQ(harness_.events[step - 1].loss(), FakeLoss(step));
    EXPECT_EQ(harness_.events[step - 1].tokens(), 8u * 16);
    EXPECT_FALSE(harness_.events[step - 1].validation_follows());
  }
  EXPECT_TRUE(harness_.validation_losses.empty());
  const JobHistory& history = harness_.job(job).history;
  EXPECT_EQ(history.last_commit.step(), 4u);
  EXPECT_EQ(history.last_commit.num_updates(), 4u);
  ASSERT_EQ(history.checkpoints.size(), 1u);
  EXPECT_EQ(history.checkpoints[0].digest().size(), 32u);
  EXPECT_NE(history.checkpoints[0].digest(), history.checkpoints[0].state_digest());
  for (const char* worker : {"a", "b", "c"}) {
    EXPECT_EQ(Count(worker, Message::kRunStep), 4u);
    EXPECT_EQ(Count(worker, Message::kCommitStep), 4u);
    EXPECT_EQ(harness_.sent[worker].back().message_case(), Message::kRelease);
    EXPECT_FALSE(harness_.state.workers().at(WorkerId(worker)).job.has_value());
  }
}

TEST_F(DecideTest, EveryMessageCarriesTheFence) {
  const JobId job = StartOnThree();
  harness_.RunUntilQuiet();
  for (const auto& [worker, messages] : harness_.sent) {
    for (const Message& message : messages) {
      EXPECT_EQ(message.fence().coordinator_term(), 1u);
      EXPECT_EQ(message.fence().incarnation(), 1u);
      if (message.has_welcome()) continue;
      EXPECT_EQ(message.fence().job(), job.value());
      EXPECT_EQ(message.fence().epoch(), 1u);
    }
  }
}

TEST_F(DecideTest, NextStepStartsWithTheCommitAndBeforeAnyUpdate) {
  const JobId job = StartOnThree();
  harness_.RunUntil([&] { return harness_.job(job).history.last_commit.step() == 1; });
  for (const char* worker : {"a", "b", "c"}) {
    EXPECT_EQ(Count(worker, Message::kRunStep), 2u);
    const auto commits = harness_.Sent(worker, Message::kCommitStep);
    ASSERT_EQ(commits.size(), 1u);
    EXPECT_FALSE(commits[0].commit_step().want_digests());
  }
  // Nobody says that it has applied step 1, and step 2 is committed all the same.
  for (const char* worker : {"a", "b", "c"}) {
    while (!harness_.inbox[worker].empty()) {
      const auto answer = harness_.workers[worker]->Answer(harness_.inbox[worker].front());
      harness_.inbox[worker].pop_front();
      if (!answer.has_value() || !answer->has_step_prepared()) continue;
      EXPECT_TRUE(harness_.Say(worker, *answer));
      if (harness_.job(job).history.last_commit.step() == 2) break;
    }
  }
  EXPECT_EQ(harness_.job(job).history.last_commit.step(), 2u);
}

TEST_F(DecideTest, ACommitIsJournalledBeforeAnyoneIsTold) {
  const JobId job = StartOnThree();
  for (const char* worker : {"a", "b"}) harness_.Step(worker);
  WorkerSaid last{harness_.sessions.at("c"), *harness_.workers["c"]->Answer(harness_.inbox["c"].front())};
  const Decision decision = Decide(harness_.now, harness_.state, last);
  const auto first_of = [&](auto matches) {
    return std::find_if(decision.effects.begin(), decision.effects.end(), matches) - decision.effects.begin();
  };
  const auto append = first_of([](const Effect& effect) { return std::holds_alternative<AppendEntry>(effect); });
  const auto send = first_of([](const Effect& effect) { return std::holds_alternative<SendToWorker>(effect); });
  EXPECT_LT(append, send);
  EXPECT_LT(send, static_cast<std::ptrdiff_t>(decision.effects.size()));
  EXPECT_EQ(harness_.job(job).history.last_commit.step(), 0u);  // Decide changes nothing
}

TEST_F(DecideTest, StepsTakeTheSamplesOfOneDataPassAfterAnother) {
  auto plan = SmallPlan(3);
  plan->num_train_samples = 19;
  SubmitToThree();
  harness_.FinishPlanning(plan);
  harness_.RunUntilQuiet();
  const auto runs = harness_.Sent("b", Message::kRunStep);
  ASSERT_EQ(runs.size(), 4u);
  const uint64_t first_samples[] = {0, 8, 16, 19};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(runs[i].run_step().first_sample(), first_samples[i]);
  EXPECT_THAT(runs[1].run_step().micro_batch_samples(), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(runs[2].run_step().micro_batch_samples(), ElementsAre(2, 1, 0, 0));
  EXPECT_THAT(runs[2].run_step().loss_weight(), ElementsAre(2.0 / 3, 1.0 / 3, 0, 0));
  EXPECT_EQ(runs[2].run_step().program_hash(), "training1");
  EXPECT_EQ(harness_.events[2].tokens(), 3u * 16);
}

TEST_F(DecideTest, StepSecondsAreFromRunStepToVerdict) {
  const JobId job = StartOnThree();
  harness_.now += absl::Seconds(4);
  harness_.RunUntil([&] { return harness_.job(job).history.last_commit.step() == 1; });
  harness_.now += absl::Seconds(2);
  harness_.RunUntil([&] { return harness_.job(job).history.last_commit.step() == 2; });
  EXPECT_EQ(harness_.events[0].step_seconds(), 4);
  EXPECT_EQ(harness_.events[0].tokens_per_second(), 128 / 4.0);
  EXPECT_EQ(harness_.events[1].step_seconds(), 2);
  EXPECT_EQ(harness_.events[1].bubble_ratio(), 1 - 0.5 / 2);
  EXPECT_THAT(harness_.events[1].stage_utilization(), ElementsAre(0.25, 0.25, 0.25));
}

TEST_F(DecideTest, NormLearningRateAndClipReachTheCommit) {
  v1::JobSpec spec = SmallSpec();
  spec.mutable_training()->set_max_grad_norm(0.125);
  spec.mutable_lr_scheduler()->set_warmup_steps(2);
  StartOnThree(spec);
  harness_.RunUntilQuiet();
  double squares = 0;
  for (const char* name :
       {"layer.0.bias", "layer.0.weight", "layer.1.bias", "layer.1.weight", "layer.2.bias", "layer.2.weight"}) {
    squares += FakeSquaredNorm(name);
  }
  const auto commits = harness_.Sent("a", Message::kCommitStep);
  ASSERT_EQ(commits.size(), 4u);
  const v1::CommitRecord& first = commits[0].commit_step().record();
  EXPECT_EQ(first.grad_norm(), std::sqrt(squares));
  EXPECT_EQ(first.clip_factor(), 0.125 / (std::sqrt(squares) + 1e-6));
  EXPECT_EQ(first.learning_rate(), 0.25);
  EXPECT_EQ(commits[1].commit_step().record().learning_rate(), 0.5);
  EXPECT_FALSE(commits[2].commit_step().want_digests());
  EXPECT_TRUE(commits[3].commit_step().want_digests());
}

TEST_F(DecideTest, ASkippedStepCountsAsAStepAndNotAsAnUpdate) {
  const JobId job = SubmitToThree();
  harness_.workers["b"]->edit_vote = [](v1::StepPrepared& vote) { vote.set_num_non_finite(vote.step() == 2 ? 1 : 0); };
  harness_.FinishPlanning(SmallPlan(3));
  harness_.RunUntilQuiet();
  EXPECT_EQ(StateOf(job), v1::JOB_STATE_SUCCEEDED);
  const auto commits = harness_.Sent("c", Message::kCommitStep);
  ASSERT_EQ(commits.size(), 4u);
  EXPECT_EQ(commits[1].commit_step().record().verdict(), v1::VERDICT_SKIP);
  EXPECT_EQ(commits[1].commit_step().record().num_updates(), 1u);
  EXPECT_EQ(commits[3].commit_step().record().num_updates(), 3u);
  EXPECT_TRUE(harness_.events[1].skipped());
  EXPECT_FALSE(harness_.events[2].skipped());
}

TEST_F(DecideTest, TwentySkipsInARowFailTheJob) {
  v1::JobSpec spec = SmallSpec();
  spec.mutable_training()->set_steps(100);
  const JobId job = SubmitToThree(spec);
  // Step 3 is fine, so that the row begins again.
  harness_.workers["a"]->edit_vote = [](v1::StepPrepared& vote) { vote.set_num_non_finite(vote.step() == 3 ? 0 : 1); };
  harness_.FinishPlanning(SmallPlan(3));
  harness_.RunUntilQuiet();
  EXPECT_EQ(StateOf(job), v1::JOB_STATE_FAILED);
  EXPECT_EQ(harness_.job(job).history.reason, kReasonLossNotFinite);
  EXPECT_EQ(harness_.job(job).history.last_commit.step(), 23u);
  EXPECT_EQ(harness_.events.size(), 23u);
  EXPECT_EQ(harness_.sent["b"].back().message_case(), Message::kRelease);
}

TEST_F(DecideTest, ANonFiniteLossAloneDoesNotFailTheJob) {
  const JobId job = SubmitToThree();
  harness_.workers["c"]->edit_vote = [](v1::StepPrepared& vote) {
    vote.mutable_loss_parts(0)->set_value(std::numeric_limits<double>::quiet_NaN());
  };
  harness_.FinishPlanning(SmallPlan(3));
  harness_.RunUntilQuiet();
  EXPECT_EQ(StateOf(job), v1::JOB_STATE_SUCCEEDED);
  EXPECT_TRUE(std::isnan(harness_.events[0].loss()));
}

TEST_F(DecideTest, EvaluatesEachIntervalInAsManyRunsAsItTakes) {
  v1::JobSpec spec = SmallSpec();
  spec.mutable_training()->set_steps(3);
  const JobId job = StartOnThree(spec, /*num_validation_samples=*/9);
  harness_.RunUntilQuiet();
  EXPECT_EQ(StateOf(job), v1::JOB_STATE_SUCCEEDED);

  std::vector<v1::RunStep> evaluations;
  for (const Message& message : harness_.Sent("a", Message::kRunStep)) {
    if (message.run_step().evaluation()) evaluations.push_back(message.run_step());
  }
  ASSERT_EQ(evaluations.size(), 6u);  // 4 + 4 + 1 samples, after steps 2 and 3
  EXPECT_EQ(evaluations[0].step(), 2u);
  EXPECT_EQ(evaluations[3].step(), 3u);
  EXPECT_EQ(evaluations[1].first_sample(), 4u);
  EXPECT_EQ(evaluations[1].program_hash(), "evaluation0");
  EXPECT_THAT(evaluations[1].micro_batch_samples(), ElementsAre(2, 2));
  EXPECT_THAT(evaluations[1].loss_weight(), ElementsAre(2.0 / 9, 2.0 / 9));
  EXPECT_THAT(evaluations[2].micro_batch_samples(), ElementsAre(1, 0));

  ASSERT_EQ(harness_.events.size(), 3u);
  EXPECT_FALSE(harness_.events[0].validation_follows());
  EXPECT_TRUE(harness_.events[1].validation_follows());
  EXPECT_TRUE(harness_.events[2].validation_follows());
  ASSERT_EQ(harness_.validation_losses.size(), 2u);
  EXPECT_DOUBLE_EQ(harness_.validation_losses.at(2), FakeValidationLoss(2));
  EXPECT_DOUBLE_EQ(harness_.validation_losses.at(3), FakeValidationLoss(3));
}

TEST_F(DecideTest, EvaluationComesAfterTheCommitAndBeforeTheNextStep) {
  StartOnThree(SmallSpec(), /*num_validation_samples=*/4);
  harness_.RunUntilQuiet();
  std::vector<std::string> order;
  for (const Message& message : harness_.sent["b"]) {
    if (message.has_commit_step()) order.push_back("commit" + std::to_string(message.commit_step().record().step()));
    if (!message.has_run_step()) continue;
    order.push_back((message.run_step().evaluation() ? "evaluate" : "run") + std::to_string(message.run_step().step()));
  }
  EXPECT_THAT(order, ElementsAre("run1", "commit1", "run2", "commit2", "evaluate2", "run3", "commit3", "run4",
                                 "commit4", "evaluate4"));
}

TEST_F(DecideTest, NoValidationIntervalMeansNoEvaluation) {
  v1::JobSpec spec = SmallSpec();
  spec.mutable_training()->set_validation_interval(0);
  StartOnThree(spec, /*num_validation_samples=*/4);
  harness_.RunUntilQuiet();
  EXPECT_EQ(Count("a", Message::kRunStep), 4u);
}

TEST_F(DecideTest, CheckpointHasAShardOfEachStageAndEveryTensor) {
  const JobId job = StartOnThree();
  harness_.RunUntil([&] { return PhaseOf(job) == Phase::kWritingManifest; });
  const v1::CheckpointManifest manifest = harness_.manifest->manifest;
  EXPECT_EQ(harness_.manifest->directory, "/checkpoints/step");
  ASSERT_EQ(manifest.shards_size(), 3);
  EXPECT_EQ(manifest.shards(2).file(), "stage-00002.safetensors");
  EXPECT_EQ(manifest.tensors_size(), 12);
  EXPECT_EQ(manifest.step(), 4u);
  EXPECT_EQ(manifest.num_updates(), 4u);
  EXPECT_EQ(manifest.next_sample(), 32u);
  EXPECT_EQ(manifest.coordinator_term(), 1u);
  EXPECT_EQ(StateOf(job), v1::JOB_STATE_RUNNING);
  harness_.RunUntilQuiet();
  EXPECT_EQ(harness_.job(job).history.checkpoints[0].digest(), manifest.digest());
}

TEST_F(DecideTest, ACheckpointThatCannotBeWrittenFailsTheJob) {
  const JobId job = StartOnThree();
  harness_.RunUntil([&] { return harness_.directory.has_value(); });
  harness_.FinishDirectory(absl::ResourceExhaustedError("/checkpoints: the disk is full"));
  EXPECT_EQ(StateOf(job), v1::JOB_STATE_FAILED);
  EXPECT_EQ(harness_.job(job).history.reason, kReasonCheckpointFailed);
  EXPECT_EQ(harness_.sent["a"].back().message_case(), Message::kRelease);
}

TEST_F(DecideTest, AManifestThatCannotBeWrittenFailsTheJob) {
  const JobId job = StartOnThree();
  harness_.RunUntil([&] { return harness_.manifest.has_value(); });
  harness_.FinishManifest(absl::ResourceExhaustedError("the disk is full"));
  EXPECT_EQ(harness_.job(job).history.reason, kReasonCheckpointFailed);
  EXPECT_TRUE(harness_.job(job).history.checkpoints.empty());
}

TEST_F(DecideTest, AShardThatIsNotWhatWasAppliedFailsTheJob) {
  const JobId job = StartOnThree();
  harness_.RunUntil([&] { return PhaseOf(job) == Phase::kWritingShards; });
  v1::WorkerMessage shard = *harness_.workers["a"]->Answer(harness_.inbox["a"].back());
  shard.mutable_shard_written()->mutable_tensors(0)->set_low(1);
  harness_.Say("a", shard);
  harness_.inbox["a"].clear();
  harness_.RunUntilQuiet();
  EXPECT_EQ(harness_.job(job).history.reason, kReasonCheckpointFailed);
  EXPECT_THAT(harness_.job(job).history.message, HasSubstr("layer.0.weight is not what its stage had after step 4"));
}

TEST_F(DecideTest, AParameterInNoShardFailsTheJob) {
  const JobId job = StartOnThree();
  harness_.RunUntil([&] { return PhaseOf(job) == Phase::kWritingShards; });
  v1::WorkerMessage shard = *harness_.workers["b"]->Answer(harness_.inbox["b"].back());
  shard.mutable_shard_written()->mutable_tensors()->DeleteSubrange(0, 2);
  harness_.Say("b", shard);
  harness_.inbox["b"].clear();
  harness_.RunUntilQuiet();
  EXPECT_THAT(harness_.job(job).history.message, HasSubstr("no stage has written layer.1.weight"));
}

TEST_F(DecideTest, LateStepAppliedIsTakenUntilTheJobEnds) {
  const JobId job = StartOnThree();
  harness_.RunUntil([&] { return PhaseOf(job) == Phase::kFinishing; });
  for (const char* worker : {"a", "b"}) {
    while (harness_.Step(worker)) {
    }
  }
  EXPECT_EQ(PhaseOf(job), Phase::kFinishing);  // c has applied nothing of step 4 yet
  v1::WorkerMessage late = harness_.Fenced("c", job);
  late.mutable_step_applied()->set_step(3);
  harness_.Say("c", late);
  EXPECT_EQ(PhaseOf(job), Phase::kFinishing);
  late.mutable_step_applied()->set_step(4);
  EXPECT_TRUE(harness_.Say("c", late));
  EXPECT_EQ(PhaseOf(job), Phase::kMakingDirectory);
  EXPECT_FALSE(harness_.Say("c", late));
}

TEST_F(DecideTest, StepAppliedOfAStepThatIsNotCommittedIsIgnored) {
  const JobId job = StartOnThree();
  v1::WorkerMessage early = harness_.Fenced("a", job);
  early.mutable_step_applied()->set_step(1);
  EXPECT_FALSE(harness_.Say("a", early));
}

// ---- the fencing law

TEST_F(DecideTest, MessagesOfAnotherEpochIncarnationTermOrJobAreIgnored) {
  const JobId job = StartOnThree();
  const v1::WorkerMessage vote = *harness_.workers["a"]->Answer(harness_.inbox["a"].front());
  for (const uint64_t other : {0u, 2u, 7u}) {
    v1::WorkerMessage stale = vote;
    stale.mutable_fence()->set_epoch(other);
    EXPECT_FALSE(harness_.Say("a", stale)) << "epoch " << other;
    stale = vote;
    stale.mutable_fence()->set_incarnation(other);
    EXPECT_FALSE(harness_.Say("a", stale)) << "incarnation " << other;
    stale = vote;
    stale.mutable_fence()->set_coordinator_term(other);
    EXPECT_FALSE(harness_.Say("a", stale)) << "term " << other;
  }
  v1::WorkerMessage foreign = vote;
  foreign.mutable_fence()->set_job("another");
  EXPECT_FALSE(harness_.Say("a", foreign));
  EXPECT_FALSE(harness_.Say("stranger", vote));
  EXPECT_EQ(harness_.job(job).progress.said[0].vote, nullptr);
  EXPECT_TRUE(harness_.Say("a", vote));
}

TEST_F(DecideTest, MessagesAfterTheEndAreIgnored) {
  const JobId job = StartOnThree();
  harness_.RunUntilQuiet();
  v1::WorkerMessage late = harness_.Fenced("a", job);
  late.mutable_failure()->set_message("too late");
  EXPECT_FALSE(harness_.Say("a", late));
  EXPECT_EQ(StateOf(job), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(DecideTest, EachStageHasOneVotePerStep) {
  const JobId job = StartOnThree();
  const v1::WorkerMessage vote = *harness_.workers["a"]->Answer(harness_.inbox["a"].front());
  EXPECT_TRUE(harness_.Say("a", vote));
  EXPECT_FALSE(harness_.Say("a", vote));
  EXPECT_EQ(harness_.job(job).history.last_commit.step(), 0u);
  harness_.Step("b");
  harness_.Step("c");
  EXPECT_EQ(harness_.job(job).history.last_commit.step(), 1u);
  EXPECT_FALSE(harness_.Say("a", vote));  // of a step that is over
}

TEST_F(DecideTest, EveryOtherMessageCountsOnceToo) {
  const JobId job = SubmitToThree();
  harness_.FinishPlanning(SmallPlan(3, /*num_validation_samples=*/4));
  std::set<Phase> phases;
  std::optional<v1::WorkerMessage> last;
  harness_.RunUntil([&] {
    // What worker a says is said twice.
    while (!harness_.inbox["a"].empty()) {
      const auto answer = harness_.workers["a"]->Answer(harness_.inbox["a"].front());
      harness_.inbox["a"].pop_front();
      if (!answer.has_value()) continue;
      phases.insert(PhaseOf(job));
      EXPECT_TRUE(harness_.Say("a", *answer)) << answer->ShortDebugString();
      EXPECT_FALSE(harness_.Say("a", *answer)) << answer->ShortDebugString();
    }
    return false;
  });
  EXPECT_EQ(StateOf(job), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(harness_.events.size(), 4u);
  EXPECT_TRUE((phases == std::set<Phase>{Phase::kPreparingStages, Phase::kConnectingPeers, Phase::kTraining,
                                         Phase::kEvaluating, Phase::kWritingShards}));
}

TEST_F(DecideTest, ASecondPlanOfAnEarlierAttemptIsIgnored) {
  const JobId job = SubmitToThree();
  const StartPlanning first = *std::exchange(harness_.planning, std::nullopt);
  harness_.Lose("c");
  harness_.Connect("c", 2);
  ASSERT_TRUE(harness_.planning.has_value());
  EXPECT_GT(harness_.planning->attempt, first.attempt);
  EXPECT_FALSE(harness_.Feed(PlanReady{job, first.attempt, std::shared_ptr<const JobPlan>(SmallPlan(3)), ""}));
  EXPECT_EQ(PhaseOf(job), Phase::kPlanning);
}

TEST_F(DecideTest, ANewIncarnationOfAMemberEndsTheEpoch) {
  const JobId job = StartOnThree();
  harness_.Connect("b", 2);
  EXPECT_EQ(StateOf(job), v1::JOB_STATE_FAILED);
  EXPECT_EQ(harness_.job(job).history.reason, kReasonWorkerLost);
  EXPECT_EQ(harness_.state.workers().at(WorkerId("b")).incarnation, Incarnation(2));
}

TEST_F(DecideTest, ASessionThatEndsLateDoesNotHarmTheOneInItsPlace) {
  harness_.Connect("a");
  const SessionId first = harness_.sessions.at("a");
  harness_.Connect("a", 2);
  EXPECT_EQ(harness_.ended_sessions.at(first).code(), absl::StatusCode::kAborted);
  EXPECT_FALSE(harness_.Feed(SessionEnded{first, absl::UnavailableError("old stream")}));
  EXPECT_EQ(harness_.worker("a").presence, WorkerPresence::kConnected);
}

}  // namespace
}  // namespace stagecoach
