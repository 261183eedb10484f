#include "client/commands/job_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <sstream>

namespace stagecoach {
namespace {

using testing::AllOf;
using testing::HasSubstr;

v1::StepEvent Step(uint64_t number) {
  v1::StepEvent step;
  step.set_step(number);
  step.set_loss(3.12345);
  step.set_grad_norm(0.98121);
  step.set_learning_rate(2.98e-4);
  step.set_tokens_per_second(41233.7);
  step.set_bubble_ratio(0.1142);
  step.set_step_seconds(2);
  return step;
}

// What goes to standard error meanwhile. It is no terminal: lines stay.
std::string ErrorsOf(const std::function<void()>& run) {
  std::ostringstream errors;
  std::streambuf* const before = std::cerr.rdbuf(errors.rdbuf());
  run();
  std::cerr.rdbuf(before);
  return errors.str();
}

TEST(JobReportTest, ProgressReadsLikeOtherTrainers) {
  EXPECT_EQ(FormatProgress(Step(120), 1000, absl::Minutes(12)),
            "step: 120/1000  loss: 3.1235  grad_norm: 0.9812  lr: 2.98e-04  tokens/s: 41,233  bubble: 11.4%  eta: 12m");
  v1::StepEvent skipped = Step(1);
  skipped.set_skipped(true);
  skipped.set_validation_loss(2);
  EXPECT_THAT(FormatProgress(skipped, 2, absl::ZeroDuration()),
              AllOf(HasSubstr("  validation_loss: 2.0000  "), HasSubstr("  SKIPPED: gradients were not finite")));
}

TEST(JobReportTest, ShowsEveryLogIntervalTheFirstAndTheLast) {
  JobReport report(JobReport::Format::kText, 25, 10);
  const std::string errors = ErrorsOf([&] {
    for (uint64_t step = 1; step <= 25; ++step) report.OnStep(Step(step));
  });
  EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 4);
  for (const char* step : {"step: 1/25 ", "step: 10/25 ", "step: 20/25 ", "step: 25/25 "}) {
    EXPECT_THAT(errors, HasSubstr(step));
  }
}

TEST(JobReportTest, MoreStepsThanWereExpectedHaveNoNegativeEta) {
  JobReport report(JobReport::Format::kText, 5, 1);
  EXPECT_THAT(ErrorsOf([&] { report.OnStep(Step(7)); }), HasSubstr("  eta: 0\n"));
}

TEST(JobReportTest, TellsEachStateOnce) {
  JobReport report(JobReport::Format::kStatesOnly, 25, 10);
  v1::JobStatus status;
  status.set_state(v1::JOB_STATE_RUNNING);
  const std::string errors = ErrorsOf([&] {
    report.OnStatus(status);
    report.OnStatus(status);
    report.OnStep(Step(1));
    status.set_state(v1::JOB_STATE_FAILED);
    status.set_message("why\033");
    report.OnStatus(status);
  });
  EXPECT_EQ(errors, "RUNNING\nFAILED: why?\n");
}

}  // namespace
}  // namespace stagecoach
