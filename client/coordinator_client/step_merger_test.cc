#include "client/coordinator_client/step_merger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stagecoach {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

MATCHER_P(IsStep, step, "") { return arg.step() == static_cast<uint64_t>(step) && !arg.has_validation_loss(); }
MATCHER_P2(IsStepWithValidation, step, loss, "") {
  return arg.step() == static_cast<uint64_t>(step) && arg.has_validation_loss() && arg.validation_loss() == loss;
}

v1::JobEvent Step(uint64_t step, bool validation_follows = false) {
  v1::JobEvent event;
  event.mutable_step()->set_step(step);
  event.mutable_step()->set_validation_follows(validation_follows);
  return event;
}
v1::JobEvent ValidationLoss(uint64_t step, double loss) {
  v1::JobEvent event;
  event.mutable_validation()->set_step(step);
  event.mutable_validation()->set_loss(loss);
  return event;
}
v1::JobEvent Status(v1::JobState state) {
  v1::JobEvent event;
  event.mutable_status()->set_state(state);
  return event;
}

TEST(StepMergerTest, PassesStepsWithoutEvaluationOn) {
  StepMerger merger;
  EXPECT_THAT(merger.Add(Step(1)), ElementsAre(IsStep(1)));
  EXPECT_THAT(merger.Add(Step(2)), ElementsAre(IsStep(2)));
}

TEST(StepMergerTest, HoldsAStepUntilItsValidationLoss) {
  StepMerger merger;
  EXPECT_THAT(merger.Add(Step(1, true)), IsEmpty());
  EXPECT_THAT(merger.Add(Status(v1::JOB_STATE_RECOVERING)), IsEmpty());
  EXPECT_THAT(merger.Add(ValidationLoss(1, 2.5)), ElementsAre(IsStepWithValidation(1, 2.5)));
}

TEST(StepMergerTest, ReleasesAStepWhoseLossDoesNotCome) {
  StepMerger merger;
  merger.Add(Step(1, true));
  EXPECT_THAT(merger.Add(Step(2)), ElementsAre(IsStep(1), IsStep(2)));
  merger.Add(Step(3, true));
  EXPECT_THAT(merger.Add(Status(v1::JOB_STATE_FAILED)), ElementsAre(IsStep(3)));
}

v1::JobEvent Lacking(uint64_t num_missing, v1::JobEvent event) {
  event.set_num_missing(num_missing);
  return event;
}

TEST(StepMergerTest, CountsTheStepsThatTheReaderLacks) {
  StepMerger merger;
  merger.Add(Step(1));
  merger.Add(Step(2));
  EXPECT_EQ(merger.num_missing(), 0u);
  // A coordinator that knows step 1, and step 5 from a worker: this reader has seen step 2.
  EXPECT_THAT(merger.Add(Lacking(3, Step(5))), ElementsAre(IsStep(5)));
  EXPECT_EQ(merger.num_missing(), 2u);
  merger.Add(Step(6));
  EXPECT_EQ(merger.num_missing(), 0u);
}

TEST(StepMergerTest, LacksNothingOfWhatItHasSeen) {
  StepMerger merger;
  for (uint64_t step = 1; step <= 5; ++step) merger.Add(Step(step));
  EXPECT_THAT(merger.Add(Lacking(3, Step(5))), IsEmpty());
  EXPECT_EQ(merger.num_missing(), 0u);
  merger.Add(Step(6));
  EXPECT_EQ(merger.num_missing(), 0u);
}

TEST(StepMergerTest, WhatOtherEventsAnnounceIsCountedWithTheNextStepOrTheEnd) {
  StepMerger merger;
  merger.Add(Step(1));
  EXPECT_THAT(merger.Add(Lacking(9, ValidationLoss(4, 1.5))), IsEmpty());
  EXPECT_EQ(merger.num_missing(), 0u);
  merger.Add(Step(5));
  EXPECT_EQ(merger.num_missing(), 3u);
  v1::JobEvent end = Lacking(20, Status(v1::JOB_STATE_SUCCEEDED));
  end.mutable_status()->set_step(8);
  merger.Add(end);
  EXPECT_EQ(merger.num_missing(), 3u);
}

TEST(StepMergerTest, ShowsEachStepOnce) {
  StepMerger merger;
  merger.Add(Step(1));
  merger.Add(Step(2, true));
  EXPECT_THAT(merger.Add(Step(1)), IsEmpty());
  EXPECT_THAT(merger.Add(Step(2, true)), IsEmpty());
  EXPECT_THAT(merger.Add(ValidationLoss(1, 1.0)), IsEmpty());
  EXPECT_THAT(merger.Add(ValidationLoss(2, 2.0)), ElementsAre(IsStepWithValidation(2, 2.0)));
  EXPECT_THAT(merger.Add(ValidationLoss(2, 2.0)), IsEmpty());
}

TEST(StepMergerTest, FlushGivesWhatIsHeld) {
  StepMerger merger;
  EXPECT_EQ(merger.Flush(), std::nullopt);
  merger.Add(Step(4, true));
  EXPECT_THAT(merger.Flush(), testing::Optional(IsStep(4)));
  EXPECT_EQ(merger.Flush(), std::nullopt);
}

}  // namespace
}  // namespace stagecoach
