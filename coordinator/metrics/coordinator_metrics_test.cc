#include "coordinator/metrics/coordinator_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <sstream>
#include <string>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "coordinator/testing/decide_harness.h"
#include "tests/testing/simulated_clock.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr absl::Duration kLinger = absl::Seconds(15);

// A harness whose decisions the metrics see, as they see a coordinator's.
class CoordinatorMetricsTest : public testing::Test {
 protected:
  CoordinatorMetricsTest() { Observe(); }

  void Observe() {
    metrics_ = std::make_unique<CoordinatorMetrics>(*registry_, clock_, kLinger);
    harness_.observer = metrics_.get();
  }
  void Start(uint32_t num_workers = 3) {
    for (const char* name : {"a", "b", "c"}) harness_.Connect(name).edit_vote = [this](auto& vote) { Edit(vote); };
    spec_.mutable_checkpoint()->set_interval_steps(2);
    job_ = harness_.Submit(spec_);
    harness_.FinishPlanning(SmallPlan(num_workers, 8));
  }
  void Edit(v1::StepPrepared& vote) {
    *vote.mutable_busy_seconds() = busy_;
    if (std::isnan(loss_) && vote.loss_parts_size() > 0) vote.mutable_loss_parts(0)->set_value(loss_);
  }
  void ReachStep(uint64_t step) {
    harness_.RunUntil([&] { return harness_.job(job_).history.last_commit.step() == step; });
  }
  void Advance(absl::Duration by) {
    clock_.Advance(by);
    harness_.now += by;
  }
  // Of a series, as "name{label=\"value\"}"; NaN: there is none.
  double Value(const std::string& series) const {
    std::istringstream lines(registry_->Text());
    for (std::string line; std::getline(lines, line);) {
      double value = 0;
      if (absl::StartsWith(line, series + " ") && absl::SimpleAtod(line.substr(series.size() + 1), &value))
        return value;
    }
    return std::numeric_limits<double>::quiet_NaN();
  }
  double Seconds(uint32_t stage, const std::string& state) const {
    return Value(
        absl::StrCat("stagecoach_stage_busy_seconds_total{run=\"job\",stage=\"", stage, "\",state=\"", state, "\"}"));
  }
  double AllSeconds(uint32_t stage) const {
    double sum = 0;
    for (const char* state : {"forward", "recompute", "backward", "weight_grad", "optimizer", "p2p_wait", "data_wait",
                              "other", "evaluation", "checkpoint", "idle"}) {
      sum += Seconds(stage, state);
    }
    return sum;
  }

  SimulatedClock clock_;
  std::unique_ptr<MetricRegistry> registry_ = *MetricRegistry::Create(MetricSource::kCoordinator);
  std::unique_ptr<CoordinatorMetrics> metrics_;
  DecideHarness harness_;
  v1::JobSpec spec_ = SmallSpec();
  v1::BusySeconds busy_;
  double loss_ = 0;
  JobId job_;
};

TEST_F(CoordinatorMetricsTest, AJobHasSeriesOfWhatIsKnown) {
  Start();
  EXPECT_EQ(Value("stagecoach_target_steps{run=\"job\"}"), 4);
  EXPECT_EQ(Value("stagecoach_steps_total{run=\"job\"}"), 0);
  EXPECT_EQ(Value("stagecoach_jobs_submitted_total{outcome=\"accepted\"}"), 1);
  EXPECT_THAT(registry_->Text(), Not(HasSubstr("stagecoach_loss{")));  // no step yet
  ReachStep(1);
  EXPECT_EQ(Value("stagecoach_steps_total{run=\"job\"}"), 1);
  EXPECT_EQ(Value("stagecoach_step{run=\"job\"}"), 1);
  EXPECT_DOUBLE_EQ(Value("stagecoach_loss{run=\"job\"}"), harness_.events.back().loss());
  EXPECT_DOUBLE_EQ(Value("stagecoach_grad_norm{run=\"job\"}"), harness_.events.back().grad_norm());
  EXPECT_DOUBLE_EQ(Value("stagecoach_learning_rate{run=\"job\"}"), harness_.events.back().learning_rate());
  EXPECT_EQ(Value("stagecoach_tokens_total{run=\"job\"}"), static_cast<double>(harness_.events.back().tokens()));
  EXPECT_EQ(Value("stagecoach_stage_layers{run=\"job\",stage=\"2\"}"), 1);
  EXPECT_EQ(Value("stagecoach_run_state{run=\"job\",state=\"running\"}"), 1);
  EXPECT_THAT(registry_->Text(), Not(HasSubstr("state=\"preparing\"} 1")));
  harness_.RunUntilQuiet();
  EXPECT_DOUBLE_EQ(Value("stagecoach_validation_loss{run=\"job\"}"), harness_.validation_losses.rbegin()->second);
  EXPECT_EQ(Value("stagecoach_checkpoints_total{outcome=\"completed\",run=\"job\"}"), 2);
  EXPECT_EQ(Value("stagecoach_last_checkpoint_step{run=\"job\"}"), 4);
}

TEST_F(CoordinatorMetricsTest, WhatStagesDoSumsToTheTimeOfTheRun) {
  spec_.mutable_training()->set_validation_interval(2);
  Start();
  busy_.set_forward(1);
  busy_.set_backward_input(2);
  busy_.set_p2p_wait(0.5);
  const auto at = [&](Phase phase) { harness_.RunUntil([&] { return harness_.job(job_).progress.phase == phase; }); };
  at(Phase::kTraining);
  Advance(absl::Seconds(5));
  ReachStep(1);
  EXPECT_DOUBLE_EQ(Seconds(1, "forward"), 1);
  EXPECT_DOUBLE_EQ(Seconds(1, "backward"), 2);
  EXPECT_DOUBLE_EQ(Seconds(1, "p2p_wait"), 0.5);
  EXPECT_DOUBLE_EQ(Seconds(1, "idle"), 1.5);
  EXPECT_NEAR(Value("stagecoach_utilization_ratio{run=\"job\",stage=\"1\"}"), 3.0 / 5, 1e-9);
  EXPECT_NEAR(Value("stagecoach_bubble_ratio{run=\"job\",stage=\"1\"}"), 2.0 / 5, 1e-9);
  Advance(absl::Seconds(1));  // less than the worker says it was busy: its clock differs
  ReachStep(2);
  at(Phase::kEvaluating);
  Advance(absl::Seconds(7));
  harness_.RunUntil([&] { return harness_.job(job_).progress.phase != Phase::kEvaluating; });
  EXPECT_DOUBLE_EQ(Seconds(0, "evaluation"), 7);
  for (const uint32_t stage : {0U, 1U, 2U}) EXPECT_NEAR(AllSeconds(stage), 13, 1e-9);
}

TEST_F(CoordinatorMetricsTest, APauseIsNobodysTime) {
  Start();
  ReachStep(1);
  harness_.Feed(PauseRequested{1, job_});
  harness_.RunUntil([&] { return harness_.job(job_).progress.phase == Phase::kPaused; });
  const double before = AllSeconds(0);
  Advance(absl::Hours(1));
  harness_.Feed(ResumeRequested{2, job_});
  Advance(absl::Seconds(2));
  ReachStep(3);
  EXPECT_NEAR(AllSeconds(0) - before, 2, 1e-9);
}

TEST_F(CoordinatorMetricsTest, ALossThatIsNotFiniteIsShownAsSuch) {
  Start();
  loss_ = std::numeric_limits<double>::quiet_NaN();
  ReachStep(1);
  EXPECT_THAT(registry_->Text(), HasSubstr("stagecoach_loss{run=\"job\"} Nan\n"));
}

TEST_F(CoordinatorMetricsTest, SeriesOfAnEndedJobGoAfterTheLinger) {
  Start();
  harness_.RunUntilQuiet();
  ASSERT_EQ(harness_.job(job_).history.state, v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Value("stagecoach_run_state{run=\"job\",state=\"succeeded\"}"), 1);
  const auto pass = [&](absl::Duration time) {
    clock_.Advance(time);
    harness_.Pass(time);
  };
  pass(kLinger - absl::Seconds(1));
  EXPECT_EQ(Value("stagecoach_steps_total{run=\"job\"}"), 4);
  pass(absl::Seconds(2));
  EXPECT_THAT(registry_->Text(), Not(HasSubstr("run=\"job\"")));
  EXPECT_EQ(Value("stagecoach_jobs{state=\"succeeded\"}"), 1);
}

TEST_F(CoordinatorMetricsTest, CountsWorkersAndWhyTheyAreLost) {
  Start();
  harness_.Pass(absl::Seconds(1));
  EXPECT_EQ(Value("stagecoach_workers{state=\"busy\"}"), 3);
  harness_.Lose("b");
  harness_.silent.insert("c");
  harness_.Pass(absl::Seconds(5));
  harness_.Connect("a", 2);
  EXPECT_EQ(Value("stagecoach_worker_losses_total{reason=\"session_ended\"}"), 1);
  EXPECT_EQ(Value("stagecoach_worker_losses_total{reason=\"lease_expired\"}"), 1);
  EXPECT_EQ(Value("stagecoach_worker_losses_total{reason=\"replaced\"}"), 1);
  EXPECT_EQ(Value("stagecoach_worker_losses_total{reason=\"hung\"}"), 0);
  harness_.Pass(absl::Seconds(1));
  EXPECT_EQ(Value("stagecoach_workers{state=\"lost\"}"), 2);
  EXPECT_EQ(Value("stagecoach_workers{state=\"idle\"}"), 1);
}

TEST_F(CoordinatorMetricsTest, ARestartedCoordinatorKnowsItsJobs) {
  Start();
  ReachStep(3);
  harness_.RunUntil([&] { return !harness_.job(job_).history.checkpoints.empty(); });
  const double checkpoint_time = Value("stagecoach_last_checkpoint_timestamp_seconds{run=\"job\"}");
  const double loss = Value("stagecoach_loss{run=\"job\"}");
  metrics_.reset();
  registry_ = *MetricRegistry::Create(MetricSource::kCoordinator);
  Observe();
  harness_.Restart();
  EXPECT_EQ(Value("stagecoach_step{run=\"job\"}"), 3);
  EXPECT_EQ(Value("stagecoach_steps_total{run=\"job\"}"), 0);  // of this life
  EXPECT_EQ(Value("stagecoach_loss{run=\"job\"}"), loss);
  EXPECT_EQ(Value("stagecoach_last_checkpoint_step{run=\"job\"}"), 2);
  EXPECT_EQ(Value("stagecoach_last_checkpoint_timestamp_seconds{run=\"job\"}"), checkpoint_time);
  EXPECT_GT(Value("stagecoach_run_start_timestamp_seconds{run=\"job\"}"), 0);
  EXPECT_EQ(Value("stagecoach_jobs_submitted_total{outcome=\"accepted\"}"), 0);
}

TEST_F(CoordinatorMetricsTest, AFailedCheckpointIsCounted) {
  Start();
  ReachStep(2);
  harness_.RunUntil([&] { return harness_.directory.has_value(); });
  harness_.FinishDirectory(absl::ResourceExhaustedError("no space"));
  EXPECT_EQ(Value("stagecoach_checkpoints_total{outcome=\"failed\",run=\"job\"}"), 1);
  EXPECT_EQ(Value("stagecoach_checkpoints_total{outcome=\"completed\",run=\"job\"}"), 0);
}

}  // namespace
}  // namespace stagecoach
