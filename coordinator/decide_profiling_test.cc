// Costs of layers are measured before a job is planned.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/jobs/job_state.h"
#include "coordinator/testing/decide_harness.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int kNumShapes = 4;  // embedding, block, norm, head

class DecideProfilingTest : public testing::Test {
 protected:
  DecideProfilingTest() {
    v1::ModelSpec& model = *spec_.mutable_model();
    model.set_architecture("gpt2");
    model.mutable_config()->set_num_hidden_layers(4);
    model.mutable_config()->set_hidden_size(8);
    model.mutable_config()->set_num_attention_heads(2);
    model.mutable_config()->set_vocab_size(256);
    model.mutable_config()->set_max_position_embeddings(16);
    spec_.mutable_parallelism()->set_pipeline_parallel_degree(2);
    spec_.mutable_parallelism()->set_costs("measured");
  }
  void Connect() {
    for (const char* name : {"a", "b"}) harness_.Connect(name);
  }
  void Submit() { job_ = harness_.Submit(spec_); }
  const JobHistory& History() const { return harness_.job(job_).history; }
  Phase PhaseNow() const { return harness_.job(job_).progress.phase; }
  std::vector<v1::CoordinatorMessage> Orders(const std::string& worker) {
    return harness_.Sent(worker, v1::CoordinatorMessage::kMeasureLayers);
  }
  std::vector<v1::CoordinatorMessage> Releases(const std::string& worker) {
    return harness_.Sent(worker, v1::CoordinatorMessage::kRelease);
  }
  std::vector<v1::CostsMeasured> MeasuredInJournal() const {
    std::vector<v1::CostsMeasured> measured;
    for (const v1::JournalEntry& entry : harness_.journal) {
      if (entry.has_costs_measured()) measured.push_back(entry.costs_measured());
    }
    return measured;
  }
  // What the worker would answer to the newest order that it was sent.
  v1::WorkerMessage AnswerOf(const std::string& worker) {
    return *harness_.workers.at(worker)->Answer(Orders(worker).back());
  }
  void ExpectPlansWith(bool costs) {
    ASSERT_TRUE(harness_.planning.has_value());
    for (const WorkerProfile& worker : harness_.planning->workers) EXPECT_EQ(worker.measured != nullptr, costs);
  }

  DecideHarness harness_;
  v1::JobSpec spec_ = SmallSpec();
  JobId job_;
};

TEST_F(DecideProfilingTest, TheFirstWorkerOfTheGangMeasuresBeforeTheJobIsPlanned) {
  Connect();
  Submit();
  EXPECT_EQ(PhaseNow(), Phase::kProfiling);
  EXPECT_EQ(History().state, v1::JOB_STATE_PREPARING);
  EXPECT_EQ(History().reason, kReasonProfiling);
  EXPECT_EQ(History().message, "worker a measures 4 layer(s)");
  EXPECT_FALSE(harness_.planning.has_value());
  ASSERT_THAT(Orders("a"), SizeIs(1));
  EXPECT_THAT(Orders("b"), IsEmpty());
  const v1::MeasureLayers order = Orders("a")[0].measure_layers();
  EXPECT_EQ(order.layers_size(), kNumShapes);
  EXPECT_EQ(order.threads(), 2u);
  EXPECT_EQ(order.layers(1).micro_batch_size(), 2u);
  EXPECT_EQ(order.layers(1).seq_len(), 16u);

  harness_.Step("a");
  EXPECT_EQ(PhaseNow(), Phase::kPlanning);
  EXPECT_EQ(History().message, "planning for 2 worker(s), with the costs that worker a has measured");
  ASSERT_TRUE(harness_.planning.has_value());
  ASSERT_THAT(harness_.planning->workers, SizeIs(2));
  ExpectPlansWith(true);
  const LayerCosts& costs = *harness_.planning->workers[1].measured;
  ASSERT_THAT(costs.by_shape(), SizeIs(kNumShapes));
  for (const auto& [shape, sizes] : costs.by_shape()) EXPECT_EQ(sizes.at(2), (LayerSeconds{2, 1, 1})) << shape;
  harness_.FinishPlanning(SmallPlan(2));
  harness_.RunUntilQuiet();
  EXPECT_EQ(History().state, v1::JOB_STATE_SUCCEEDED);
}

TEST_F(DecideProfilingTest, WhatIsKnownIsNotMeasuredAgain) {
  Connect();
  Submit();
  harness_.Step("a");
  harness_.FinishPlanning(SmallPlan(2));
  harness_.RunUntilQuiet();
  ASSERT_THAT(MeasuredInJournal(), SizeIs(1));
  EXPECT_EQ(MeasuredInJournal()[0].numerics_class(), "fake");
  EXPECT_EQ(MeasuredInJournal()[0].device(), "cpu");
  EXPECT_EQ(MeasuredInJournal()[0].threads(), 2u);

  spec_.mutable_model()->mutable_config()->set_num_hidden_layers(6);  // of the same shapes
  Submit();
  EXPECT_EQ(PhaseNow(), Phase::kPlanning);
  EXPECT_EQ(History().message, "planning for 2 worker(s)");
  ExpectPlansWith(true);
  EXPECT_THAT(Orders("a"), SizeIs(1));
}

TEST_F(DecideProfilingTest, WhatIsKnownSurvivesARestart) {
  Connect();
  Submit();
  harness_.Step("a");
  harness_.FinishPlanning(SmallPlan(2));
  harness_.RunUntilQuiet();
  const std::string before = DurableText(harness_.state);
  EXPECT_EQ(DurableText(Replay(harness_.journal)), before);
  harness_.Restart();
  for (const char* name : {"a", "b"}) harness_.Dial(name);
  Submit();
  EXPECT_EQ(PhaseNow(), Phase::kPlanning);
  ExpectPlansWith(true);
}

TEST_F(DecideProfilingTest, SimulatedWorkersAreAskedEachTime) {
  for (const char* name : {"a", "b"}) harness_.Connect(name, 1, "fake", "simulated");
  spec_.mutable_resources()->set_device("simulated");
  for (int i = 1; i <= 2; ++i) {
    Submit();
    ASSERT_EQ(PhaseNow(), Phase::kProfiling);
    harness_.Step("a");
    ExpectPlansWith(true);
    harness_.FinishPlanning(SmallPlan(2));
    harness_.RunUntilQuiet();
  }
  EXPECT_THAT(MeasuredInJournal(), IsEmpty());
}

TEST_F(DecideProfilingTest, OtherThreadsAreMeasuredApart) {
  Connect();
  Submit();
  harness_.Step("a");
  harness_.FinishPlanning(SmallPlan(2));
  harness_.RunUntilQuiet();
  spec_.mutable_resources()->set_threads_per_worker(1);
  Submit();
  EXPECT_EQ(PhaseNow(), Phase::kProfiling);
  EXPECT_EQ(Orders("a").back().measure_layers().threads(), 1u);
}

TEST_F(DecideProfilingTest, WhatIsMissingAloneIsMeasured) {
  Connect();
  Submit();
  harness_.Step("a");
  harness_.FinishPlanning(SmallPlan(2));
  harness_.RunUntilQuiet();
  spec_.mutable_model()->mutable_config()->set_vocab_size(300);
  Submit();
  ASSERT_EQ(PhaseNow(), Phase::kProfiling);
  EXPECT_EQ(Orders("a").back().measure_layers().layers_size(), 2);  // embedding and head
}

TEST_F(DecideProfilingTest, AJobThatWantsNoneIsPlannedAtOnceByFlops) {
  for (const char* costs : {"analytic", ""}) {
    SCOPED_TRACE(costs);
    DecideHarness harness;
    for (const char* name : {"a", "b"}) harness.Connect(name);
    spec_.mutable_parallelism()->set_costs(costs);
    harness.Submit(spec_);
    ASSERT_TRUE(harness.planning.has_value());
    EXPECT_EQ(harness.planning->workers[0].measured, nullptr);
  }
}

TEST_F(DecideProfilingTest, AJobThatWantsNoneGetsNoneThoughTheyAreKnown) {
  Connect();
  Submit();
  harness_.Step("a");
  harness_.FinishPlanning(SmallPlan(2));
  harness_.RunUntilQuiet();
  spec_.mutable_parallelism()->set_costs("analytic");
  Submit();
  ExpectPlansWith(false);
}

TEST_F(DecideProfilingTest, WhatTheWorkerCouldNotMeasureStaysUnknown) {
  Connect();
  harness_.workers.at("a")->measure = [](const v1::LayerCall& call) {
    return call.layer().name() == "lm_head" ? v1::LayerSeconds() : FakeLayerSeconds(call);
  };
  Submit();
  v1::WorkerMessage answer = AnswerOf("a");
  answer.mutable_layers_measured()->set_message("lm_head with 2 samples: needs too much");
  EXPECT_TRUE(harness_.Say("a", answer));
  EXPECT_EQ(History().message,
            "planning for 2 worker(s), with 3 of 4 costs that worker a has measured, and the others by FLOPs: lm_head "
            "with 2 samples: needs too much");
  ASSERT_THAT(MeasuredInJournal(), SizeIs(1));
  EXPECT_EQ(MeasuredInJournal()[0].layers_size(), 3);
  ExpectPlansWith(true);
}

TEST_F(DecideProfilingTest, WhatIsNoTimeIsNotBelieved) {
  Connect();
  harness_.workers.at("a")->measure = [](const v1::LayerCall& call) {
    v1::LayerSeconds seconds = FakeLayerSeconds(call);
    if (call.layer().name() == "lm_head") seconds.set_forward(-1);
    if (call.layer().name() == "transformer.ln_f") seconds.set_backward_weight(NAN);
    return seconds;
  };
  Submit();
  harness_.Step("a");
  ASSERT_THAT(MeasuredInJournal(), SizeIs(1));
  EXPECT_EQ(MeasuredInJournal()[0].layers_size(), 2);
}

TEST_F(DecideProfilingTest, ARefusalDoesNotFailTheJob) {
  Connect();
  harness_.workers.at("a")->measure = [](const v1::LayerCall&) { return v1::LayerSeconds(); };
  Submit();
  harness_.Step("a");
  EXPECT_EQ(PhaseNow(), Phase::kPlanning);
  EXPECT_THAT(History().message, HasSubstr("with costs by FLOPs: worker a could measure none"));
  EXPECT_THAT(MeasuredInJournal(), IsEmpty());
  ExpectPlansWith(false);
}

TEST_F(DecideProfilingTest, AnAnswerThatIsShortSaysNothingAboutTheRest) {
  Connect();
  Submit();
  v1::WorkerMessage answer = AnswerOf("a");
  answer.mutable_layers_measured()->mutable_layers()->DeleteSubrange(1, 3);
  EXPECT_TRUE(harness_.Say("a", answer));
  ASSERT_THAT(MeasuredInJournal(), SizeIs(1));
  EXPECT_EQ(MeasuredInJournal()[0].layers_size(), 1);
}

TEST_F(DecideProfilingTest, WhoDoesNotAnswerInTimeIsToldToStopAndTheJobIsPlannedWithout) {
  Connect();
  Submit();
  const v1::WorkerMessage late = AnswerOf("a");
  harness_.Pass(harness_.state.options().profiling_timeout - absl::Milliseconds(1));
  EXPECT_EQ(PhaseNow(), Phase::kProfiling);
  harness_.Pass(absl::Milliseconds(1));
  EXPECT_EQ(PhaseNow(), Phase::kPlanning);
  EXPECT_THAT(History().message, HasSubstr("with costs by FLOPs: worker a has measured none in 30s"));
  ExpectPlansWith(false);
  ASSERT_THAT(Releases("a"), SizeIs(1));
  EXPECT_EQ(Releases("a")[0].fence().job(), "");
  EXPECT_FALSE(harness_.Say("a", late));
  EXPECT_THAT(MeasuredInJournal(), IsEmpty());
  harness_.FinishPlanning(SmallPlan(2));
  harness_.RunUntilQuiet();
  EXPECT_EQ(History().state, v1::JOB_STATE_SUCCEEDED);
}

TEST_F(DecideProfilingTest, AWorkerThatIsLostTakesTheJobBackToTheQueue) {
  for (const char* lost : {"a", "b"}) {
    SCOPED_TRACE(lost);
    DecideHarness harness;
    for (const char* name : {"a", "b"}) harness.Connect(name);
    const JobId job = harness.Submit(spec_);
    harness.Lose(lost);
    EXPECT_EQ(harness.job(job).history.state, v1::JOB_STATE_QUEUED);
    harness.Connect("c");
    EXPECT_EQ(harness.job(job).history.reason, kReasonProfiling);
    // Whoever is left of the gang is told that its answer is not waited for.
    EXPECT_EQ(harness.Sent("a", v1::CoordinatorMessage::kRelease).size(), std::string(lost) == "a" ? 0u : 1u);
    harness.RunUntil([&] { return harness.planning.has_value(); });
    harness.FinishPlanning(SmallPlan(2));
    harness.RunUntilQuiet();
    EXPECT_EQ(harness.job(job).history.state, v1::JOB_STATE_SUCCEEDED);
  }
}

TEST_F(DecideProfilingTest, AWorkerThatLeavesTakesItBackToo) {
  Connect();
  Submit();
  v1::WorkerMessage leaving = harness_.Fenced("b", job_);
  leaving.mutable_leaving()->set_reason("SIGTERM");
  harness_.Say("b", leaving);
  EXPECT_EQ(History().state, v1::JOB_STATE_QUEUED);
  EXPECT_THAT(Releases("a"), SizeIs(1));
}

TEST_F(DecideProfilingTest, AWorkerThatDialsAgainIsAskedAgain) {
  Connect();
  Submit();
  harness_.Break("a");
  harness_.Dial("a");
  ASSERT_THAT(Orders("a"), SizeIs(2));
  EXPECT_EQ(Orders("a")[0].DebugString(), Orders("a")[1].DebugString());
  EXPECT_EQ(PhaseNow(), Phase::kProfiling);
  harness_.Step("a");
  EXPECT_EQ(PhaseNow(), Phase::kPlanning);
  ExpectPlansWith(true);
}

TEST_F(DecideProfilingTest, ItCanBeCancelledMeanwhile) {
  Connect();
  Submit();
  const v1::WorkerMessage late = AnswerOf("a");
  harness_.Feed(CancelRequested{2, job_});
  EXPECT_EQ(History().state, v1::JOB_STATE_CANCELLED);
  EXPECT_THAT(Releases("a"), SizeIs(1));
  EXPECT_FALSE(harness_.Say("a", late));
}

TEST_F(DecideProfilingTest, AfterARestartItIsPlacedAgainAndAnOldAnswerIsIgnored) {
  Connect();
  Submit();
  const v1::WorkerMessage old = AnswerOf("a");
  harness_.Restart();
  EXPECT_EQ(History().state, v1::JOB_STATE_QUEUED);
  for (const char* name : {"a", "b"}) harness_.Dial(name);
  EXPECT_EQ(PhaseNow(), Phase::kProfiling);
  EXPECT_FALSE(harness_.Say("a", old));  // of another term
  harness_.Step("a");
  EXPECT_EQ(PhaseNow(), Phase::kPlanning);
}

TEST_F(DecideProfilingTest, AnswersOfOthersOrToOtherOrdersAreIgnored) {
  Connect();
  Submit();
  v1::WorkerMessage answer = AnswerOf("a");
  v1::WorkerMessage of_another = answer;
  of_another.mutable_fence()->set_incarnation(harness_.workers.at("b")->incarnation().value());
  EXPECT_FALSE(harness_.Say("b", of_another));
  v1::WorkerMessage of_another_job = answer;
  of_another_job.mutable_fence()->set_job("other");
  EXPECT_FALSE(harness_.Say("a", of_another_job));
  v1::WorkerMessage to_another = answer;
  to_another.mutable_layers_measured()->set_attempt(answer.layers_measured().attempt() - 1);
  EXPECT_FALSE(harness_.Say("a", to_another));
  EXPECT_TRUE(harness_.Say("a", answer));
  EXPECT_FALSE(harness_.Say("a", answer));  // twice
  EXPECT_THAT(MeasuredInJournal(), SizeIs(1));
}

TEST_F(DecideProfilingTest, ARestartedCoordinatorPlansTheSameCutWithTheSameCosts) {
  for (const bool measured : {false, true}) {
    SCOPED_TRACE(measured);
    DecideHarness harness;
    for (const char* name : {"a", "b"}) harness.Connect(name);
    const JobId job = harness.Submit(spec_);
    harness.Step("a");
    const auto plan = SmallPlan(2);
    plan->planned.plan.set_measured_costs(measured);
    harness.FinishPlanning(plan);
    harness.RunUntil([&] { return harness.job(job).history.last_commit.step() == 2; });
    harness.Restart();
    for (const char* name : {"b", "a"}) harness.Dial(name);  // the first one last
    ASSERT_TRUE(harness.planning.has_value());
    EXPECT_NE(harness.planning->same_cut_as, nullptr);
    EXPECT_EQ(harness.planning->workers[0].measured != nullptr, measured);
    harness.FinishPlanning(plan);
    harness.RunUntilQuiet();
    EXPECT_EQ(harness.job(job).history.state, v1::JOB_STATE_SUCCEEDED);
    EXPECT_EQ(harness.Sent("a", v1::CoordinatorMessage::kMeasureLayers).size(), 1u);
  }
}

TEST_F(DecideProfilingTest, AJobThatWasPreparedBeforeIsMeasuredForInTheEpochThatComes) {
  Connect();
  Submit();
  harness_.Step("a");
  harness_.FinishPlanning(SmallPlan(2));
  harness_.Restart();  // its epoch has begun, and trained nothing
  for (const char* name : {"a", "b"}) harness_.workers.at(name)->max_threads = 1;
  for (const char* name : {"a", "b"}) harness_.Dial(name);
  harness_.RunUntil([&] { return !Orders("a").empty() && Orders("a").size() == 2; });
  ASSERT_THAT(Orders("a"), SizeIs(2));
  EXPECT_GT(Orders("a")[1].fence().epoch(), History().epoch.value());
  harness_.RunUntil([&] { return harness_.planning.has_value(); });
  harness_.FinishPlanning(SmallPlan(2));
  harness_.RunUntilQuiet();
  EXPECT_EQ(History().state, v1::JOB_STATE_SUCCEEDED);
}

}  // namespace
}  // namespace stagecoach
