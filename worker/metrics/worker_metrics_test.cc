#include "worker/metrics/worker_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/simulated_clock.h"

namespace stagecoach {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr absl::Duration kLinger = absl::Seconds(15);

class WorkerMetricsTest : public testing::Test {
 protected:
  // Of stage 1 of three.
  v1::StageProgram Program() const {
    v1::StageProgram program;
    program.add_stages()->set_stage(1);
    for (const auto& [from, to] : {std::pair(0, 1), std::pair(1, 2), std::pair(1, 0)}) {
      program.add_channels()->set_from_stage(static_cast<uint32_t>(from));
      program.mutable_channels()->rbegin()->set_to_stage(static_cast<uint32_t>(to));
    }
    return program;
  }
  RunReport Report() const {
    RunReport report;
    report.traffic = {{.channel = 0, .sent = false, .bytes = 100, .wait_seconds = 0.5},
                      {.channel = 1, .sent = true, .bytes = 200, .wait_seconds = 0},
                      {.channel = 2, .sent = true, .bytes = 7, .wait_seconds = 0.25}};
    return report;
  }

  SimulatedClock clock_;
  const std::unique_ptr<MetricRegistry> registry_ = *MetricRegistry::Create(MetricSource::kWorker);
  WorkerMetrics metrics_{*registry_, clock_, /*memory_limit=*/5000, kLinger};
};

TEST_F(WorkerMetricsTest, TellsTheSession) {
  EXPECT_THAT(registry_->Text(), HasSubstr("stagecoach_session_up 0\n"));
  metrics_.OnSession(1, true);
  metrics_.OnSession(1, false);
  metrics_.OnSession(3, true);
  EXPECT_THAT(registry_->Text(),
              AllOf(HasSubstr("stagecoach_session_up 1\n"), HasSubstr("stagecoach_sessions_total 3\n")));
}

TEST_F(WorkerMetricsTest, AddsTrafficByNeighbourAndDirection) {
  metrics_.OnStagesPrepared(JobId("tiny"), Program(), {.state = 1000, .arena = 400, .snapshot = 600});
  metrics_.OnRun(JobId("tiny"), Program(), Report());
  metrics_.OnRun(JobId("tiny"), Program(), Report());
  metrics_.OnRun(JobId("other"), Program(), Report());  // not held
  const std::string text = registry_->Text();
  EXPECT_THAT(
      text,
      HasSubstr("stagecoach_p2p_bytes_total{direction=\"receive\",peer_stage=\"0\",run=\"tiny\",stage=\"1\"} 200\n"));
  EXPECT_THAT(
      text,
      HasSubstr("stagecoach_p2p_bytes_total{direction=\"send\",peer_stage=\"2\",run=\"tiny\",stage=\"1\"} 400\n"));
  EXPECT_THAT(
      text, HasSubstr("stagecoach_p2p_bytes_total{direction=\"send\",peer_stage=\"0\",run=\"tiny\",stage=\"1\"} 14\n"));
  EXPECT_THAT(text, HasSubstr("stagecoach_p2p_transfer_seconds_total{direction=\"receive\",peer_stage=\"0\",run="
                              "\"tiny\",stage=\"1\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("\"other\"")));
}

TEST_F(WorkerMetricsTest, AllChannelsBetweenTwoStagesAreOneSeries) {
  v1::StageProgram program = Program();
  *program.add_channels() = program.channels(1);
  program.mutable_channels(3)->set_kind(v1::CHANNEL_KIND_SKIP);
  RunReport report = Report();
  report.traffic.push_back({.channel = 3, .sent = true, .bytes = 50, .wait_seconds = 0});
  metrics_.OnStagesPrepared(JobId("tiny"), program, {.state = 1000, .arena = 400, .snapshot = 600});
  metrics_.OnRun(JobId("tiny"), program, report);
  EXPECT_THAT(
      registry_->Text(),
      HasSubstr("stagecoach_p2p_bytes_total{direction=\"send\",peer_stage=\"2\",run=\"tiny\",stage=\"1\"} 250\n"));
}

TEST_F(WorkerMetricsTest, TellsTheMemory) {
  metrics_.OnStagesPrepared(JobId("tiny"), Program(), {.state = 1000, .arena = 400, .snapshot = 600});
  const std::string text = registry_->Text();
  EXPECT_THAT(text, HasSubstr("{kind=\"allocated\",run=\"tiny\",stage=\"1\"} 1400\n"));
  EXPECT_THAT(text, HasSubstr("{kind=\"activations\",run=\"tiny\",stage=\"1\"} 400\n"));
  EXPECT_THAT(text, HasSubstr("{kind=\"snapshot\",run=\"tiny\",stage=\"1\"} 600\n"));
  EXPECT_THAT(text, HasSubstr("{kind=\"limit\",run=\"tiny\",stage=\"1\"} 5000\n"));
}

TEST_F(WorkerMetricsTest, SeriesOfAJobGoAfterTheLinger) {
  metrics_.OnStagesPrepared(JobId("tiny"), Program(), {.state = 1000, .arena = 400, .snapshot = 600});
  metrics_.OnRun(JobId("tiny"), Program(), Report());
  metrics_.OnReleased();
  clock_.Advance(kLinger - absl::Seconds(1));
  metrics_.OnSession(1, true);
  EXPECT_THAT(registry_->Text(), HasSubstr("run=\"tiny\""));
  clock_.Advance(absl::Seconds(1));
  metrics_.OnSession(1, true);
  EXPECT_THAT(registry_->Text(), Not(HasSubstr("run=\"tiny\"")));
}

TEST_F(WorkerMetricsTest, TheNextJobTakesThePlaceAtOnce) {
  metrics_.OnStagesPrepared(JobId("tiny"), Program(), {.state = 1000, .arena = 400, .snapshot = 600});
  metrics_.OnRun(JobId("tiny"), Program(), Report());
  metrics_.OnReleased();
  metrics_.OnStagesPrepared(JobId("next"), Program(), {.state = 1000, .arena = 400, .snapshot = 600});
  EXPECT_THAT(registry_->Text(), AllOf(HasSubstr("run=\"next\""), Not(HasSubstr("run=\"tiny\""))));
  clock_.Advance(kLinger);
  metrics_.OnSession(1, true);
  EXPECT_THAT(registry_->Text(), HasSubstr("run=\"next\""));
}

TEST_F(WorkerMetricsTest, AnotherEpochOfAJobGoesOnCounting) {
  metrics_.OnStagesPrepared(JobId("tiny"), Program(), {.state = 1000, .arena = 400, .snapshot = 600});
  metrics_.OnRun(JobId("tiny"), Program(), Report());
  metrics_.OnStagesPrepared(JobId("tiny"), Program(), {.state = 2000, .arena = 400});
  metrics_.OnRun(JobId("tiny"), Program(), Report());
  EXPECT_THAT(registry_->Text(), AllOf(HasSubstr("stage=\"1\"} 14\n"), HasSubstr("stage=\"1\"} 2400\n")));
}

}  // namespace
}  // namespace stagecoach
