#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "client/output/event_view.h"
#include "client/output/exit_codes.h"
#include "client/output/job_view.h"
#include "client/output/worker_view.h"

namespace stagecoach {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

v1::Job RunningJob() {
  v1::Job job;
  v1::JobStatus& status = *job.mutable_status();
  status.set_job("gpt");
  status.set_state(v1::JOB_STATE_RUNNING);
  status.set_reason("Training");
  status.set_step(7);
  status.set_epoch(2);
  job.set_recoveries(1);
  job.mutable_last_step()->set_step(7);
  job.mutable_last_step()->set_loss(2.5);
  job.mutable_last_step()->add_stage_utilization(0.75);
  job.mutable_spec()->mutable_training()->set_steps(600);
  for (uint32_t i = 0; i < 2; ++i) {
    v1::StagePlan& stage = *job.mutable_plan()->add_stages();
    stage.set_worker_rank(1 - i);
    stage.set_first_layer(4 * i);
    stage.set_last_layer(4 * i + 3);
    job.mutable_placement()->add_members()->set_worker(absl::StrCat("worker-", i));
  }
  job.mutable_submitted()->set_seconds(1'700'000'000);
  return job;
}

std::vector<std::string> Keys(const Json& json) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  return keys;
}

TEST(JobViewTest, AScheduleThatNamesNoOrderSaysWhereTheOrderIsFrom) {
  v1::Job job = RunningJob();
  job.mutable_plan()->set_schedule("zb_h1");
  EXPECT_THAT(JobText(job, absl::UnixEpoch(), false), HasSubstr("zb_h1\n"));
  job.mutable_plan()->set_schedule("auto");
  job.mutable_plan()->set_step_seconds(0.95);
  EXPECT_THAT(JobText(job, absl::UnixEpoch(), false), HasSubstr("auto (an order searched for this job)\n"));
  for (const auto& [schedule, seconds] : {std::pair("auto", 0.95), {"gpipe", 0.0}, {"zb_h1", 1.0}, {"1f1b", 2.0}}) {
    v1::PlanCandidate& candidate = *job.mutable_plan()->add_candidates();
    candidate.set_schedule(schedule);
    candidate.set_step_seconds(seconds);
  }
  EXPECT_THAT(JobText(job, absl::UnixEpoch(), false),
              HasSubstr("auto (an order searched for this job, a step 5.0% shorter than that of zb_h1)\n"));
}

TEST(JobViewTest, JsonHasThePublishedFields) {
  const Json json = JobJson(RunningJob());
  EXPECT_EQ(json["name"], "gpt");
  EXPECT_EQ(json["state"], "RUNNING");
  EXPECT_EQ(json["reason"], "Training");
  EXPECT_EQ(json["message"], "");
  EXPECT_EQ(json["step"], 7);
  EXPECT_EQ(json["steps"], 600);
  EXPECT_EQ(json["loss"], 2.5);
  EXPECT_EQ(json["epoch"], 2);
  EXPECT_EQ(json["recoveries"], 1);
  EXPECT_EQ(json["submitted"], "2023-11-14T22:13:20.000Z");
  EXPECT_TRUE(json["ended"].is_null());
  ASSERT_EQ(json["stages"].size(), 2u);
  EXPECT_EQ(json["stages"][0]["worker"], "worker-1");
  EXPECT_EQ(json["stages"][1]["worker"], "worker-0");
  EXPECT_EQ(json["stages"][1]["first_layer"], 4);
  EXPECT_EQ(json["stages"][0]["utilization"], 0.75);
  EXPECT_TRUE(json["stages"][1]["utilization"].is_null());
}

TEST(JobViewTest, AJobThatHasNotBegunHasNoLossAndNoStages) {
  v1::Job job;
  job.mutable_spec();
  const Json json = JobJson(job);
  EXPECT_TRUE(json["loss"].is_null());
  EXPECT_TRUE(json["stages"].is_array() && json["stages"].empty());
}

TEST(JobViewTest, ALossThatIsNotFiniteIsNull) {
  v1::Job job = RunningJob();
  job.mutable_last_step()->set_loss(std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(JobJson(job)["loss"].is_null());
}

TEST(JobViewTest, AStepDoesNotShowWhatOnlyAnnouncesItsValidation) {
  v1::StepEvent step;
  step.set_validation_follows(true);
  step.set_validation_loss(1.5);
  EXPECT_EQ(StepJson(step)["validation_loss"], 1.5);
  EXPECT_FALSE(StepJson(step).contains("validation_follows"));
}

TEST(JobViewTest, TextNamesTheRootCauseFirstByWorker) {
  v1::Job job = RunningJob();
  v1::RootCause& cause = *job.mutable_status()->mutable_root_cause();
  cause.set_worker("worker-1");
  cause.add_stages(0);
  cause.set_step(8);
  cause.set_action("0F3");
  cause.set_message("killed");
  EXPECT_EQ(RootCauseText(job.status()), "worker-1 (stage 0) at step 8, 0F3: killed");
  const std::string text = JobText(job, absl::FromUnixSeconds(1'700'000'090), false);
  EXPECT_THAT(text, HasSubstr("Root cause:   worker-1 (stage 0) at step 8, 0F3: killed\n"));
  EXPECT_THAT(text, HasSubstr("Step:         7 of 600\n"));
  EXPECT_THAT(text, HasSubstr("(1m30s ago)"));
  EXPECT_THAT(text, Not(HasSubstr("Digest")));
}

TEST(JobViewTest, TextSaysWhichCostsThePlanWasMadeWith) {
  v1::Job job = RunningJob();
  EXPECT_THAT(JobText(job, absl::Now(), false), HasSubstr("Costs:        by FLOPs\n"));
  job.mutable_plan()->set_measured_costs(true);
  EXPECT_THAT(JobText(job, absl::Now(), false), HasSubstr("Costs:        measured on a worker\n"));
  EXPECT_EQ(JobJson(job)["plan"]["measured_costs"], true);
  job.clear_plan();
  EXPECT_THAT(JobText(job, absl::Now(), false), Not(HasSubstr("Costs")));
}

TEST(JobViewTest, TextSaysWhatThePlanPredicts) {
  v1::Job job = RunningJob();
  job.mutable_plan()->set_step_seconds(33.80852);
  job.mutable_plan()->set_bubble_ratio(0.06402);
  EXPECT_THAT(JobText(job, absl::Now(), false), HasSubstr("Predicted:    33.809 s a step, bubble 6.4%\n"));
  job.clear_plan();
  EXPECT_THAT(JobText(job, absl::Now(), false), Not(HasSubstr("Predicted")));
}

TEST(JobViewTest, RowsHaveAsManyCellsAsHeaders) {
  for (const bool wide : {false, true}) {
    EXPECT_EQ(JobRow(RunningJob(), absl::Now(), wide).size(), JobHeaders(wide).size());
    EXPECT_EQ(WorkerRow({}, wide).size(), WorkerHeaders(wide).size());
    EXPECT_EQ(EventRow("a", {}, wide).size(), EventHeaders(wide).size());
  }
}

TEST(WorkerViewTest, JsonHasThePublishedFields) {
  v1::WorkerDescription worker;
  worker.set_name("worker-0");
  worker.set_state(v1::WORKER_STATE_BUSY);
  worker.set_pid(4711);
  worker.add_stages(3);
  worker.set_incarnation(18446744073709551615u);
  const Json json = WorkerJson(worker);
  std::vector<std::string> keys = Keys(json);
  keys.resize(9);
  EXPECT_THAT(
      keys, ElementsAre("name", "state", "pid", "host", "job", "stages", "device", "incarnation", "last_seen_seconds"));
  EXPECT_EQ(json["state"], "BUSY");
  EXPECT_EQ(json["pid"], 4711);
  EXPECT_EQ(json["stages"], Json::array({3}));
  EXPECT_EQ(json["incarnation"], 18446744073709551615u);
}

TEST(EventViewTest, EachKindHasItsFigures) {
  v1::JobEvent event;
  event.set_sequence(9);
  event.mutable_note()->set_reason("EpochEnded");
  event.mutable_note()->set_message("worker-1 was lost");
  EXPECT_EQ(EventJson("gpt", event)["reason"], "EpochEnded");
  EXPECT_EQ(EventJson("gpt", event)["sequence"], 9);
  event.mutable_status()->set_state(v1::JOB_STATE_FAILED);
  EXPECT_EQ(EventJson("gpt", event)["status"]["state"], "FAILED");
  event.mutable_step()->set_step(3);
  EXPECT_EQ(EventJson("gpt", event)["step"]["step"], 3);
  event.mutable_validation()->set_loss(1.25);
  EXPECT_EQ(EventJson("gpt", event)["validation"]["loss"], 1.25);
}

TEST(EventViewTest, AKindOfTheFutureIsShown) {
  EXPECT_THAT(EventJson("gpt", {})["message"], HasSubstr("newer coordinator"));
}

TEST(EventViewTest, ALineCannotSteerTheTerminal) {
  v1::LogRecord record;
  record.set_worker("worker-1");
  record.mutable_line()->set_text("a\033[2Jb");
  EXPECT_EQ(LogText(record, false, false), "worker-1 | a?[2Jb");
}

TEST(JsonTest, YamlKeepsTypes) {
  EXPECT_EQ(PrintYaml({{"a", {1, 2.5, nullptr, true, "true"}}, {"b", Json::object()}, {"c", Json::array()}}),
            "a:\n  - 1\n  - 2.5\n  - ~\n  - true\n  - \"true\"\nb: {}\nc: []\n");
}

TEST(JsonTest, NamesThatAreNotUtf8ArePrinted) {
  EXPECT_EQ(PrintJsonText({{"a", "x\xff"}}, JsonForm::kOneLine), "{\"a\":\"x\xEF\xBF\xBD\"}");
  EXPECT_THAT(PrintYaml({{"a", "x\xff"}}), HasSubstr("x"));
}

TEST(ExitCodesTest, EveryAnswerHasOne) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCodeOf(absl::InternalError("")), 1);
  EXPECT_EQ(ExitCodeOf(absl::InvalidArgumentError("")), 2);
  EXPECT_EQ(ExitCodeOf(absl::PermissionDeniedError("")), 4);
  EXPECT_EQ(ExitCodeOf(absl::UnauthenticatedError("")), 4);
  EXPECT_EQ(ExitCodeOf(absl::NotFoundError("")), 5);
  EXPECT_EQ(ExitCodeOf(absl::UnavailableError("")), 6);
  EXPECT_EQ(ExitCodeOf(absl::DeadlineExceededError("")), 7);
  EXPECT_EQ(ExitCodeOf(absl::AlreadyExistsError("")), 9);
  EXPECT_EQ(ExitCodeOf(absl::FailedPreconditionError("")), 9);
}

TEST(ExitCodesTest, AJobThatFailsIsNeverSuccess) {
  EXPECT_EQ(ExitCodeOf(v1::JOB_STATE_SUCCEEDED), 0);
  EXPECT_EQ(ExitCodeOf(v1::JOB_STATE_FAILED), 3);
  EXPECT_EQ(ExitCodeOf(v1::JOB_STATE_CANCELLED), 8);
  EXPECT_NE(ExitCodeOf(v1::JOB_STATE_RUNNING), 0);
}

}  // namespace
}  // namespace stagecoach
