#include "coordinator/jobs/verdict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace stagecoach {
namespace {

using Norms = std::vector<std::pair<std::string, double>>;

std::shared_ptr<v1::StepPrepared> Vote(const Norms& norms) {
  auto vote = std::make_shared<v1::StepPrepared>();
  for (const auto& [name, value] : norms) {
    v1::SquaredNorm& norm = *vote->add_squared_norms();
    norm.set_name(name);
    norm.set_value(value);
  }
  return vote;
}

v1::LossPart Part(uint32_t micro_batch, double value) {
  v1::LossPart part;
  part.set_micro_batch(micro_batch);
  part.set_value(value);
  return part;
}

VerdictInput InputOf(const std::vector<Norms>& stages) {
  VerdictInput input;
  input.step = 7;
  input.learning_rate = 0.25;
  input.num_updates_before = 5;
  for (const Norms& norms : stages) input.votes.push_back(Vote(norms));
  return input;
}

TEST(VerdictTest, AppliesWithTheRootOfTheSummedSquares) {
  const auto record = DecideVerdict(InputOf({{{"b", 9}}, {{"a", 16}}}));
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(record->step(), 7u);
  EXPECT_EQ(record->verdict(), v1::VERDICT_APPLY);
  EXPECT_EQ(record->grad_norm(), 5);
  EXPECT_EQ(record->clip_factor(), 1);
  EXPECT_EQ(record->learning_rate(), 0.25);
  EXPECT_EQ(record->num_updates(), 6u);
  EXPECT_EQ(record->next_loss_scale(), 1);
}

TEST(VerdictTest, NormDoesNotDependOnWhichStageReportedWhat) {
  // 1e16 + 1 + 1 is 1e16 or 1e16 + 2, by the order of addition.
  const Norms all = {{"a", 1}, {"b", 1e16}, {"c", 1}, {"d", 1}, {"B", 3}, {"\xc3\xa9", 1}};
  const double canonical = std::sqrt(((((3.0 + 1) + 1e16) + 1) + 1) + 1);
  Norms order = all;
  std::sort(order.begin(), order.end());
  do {
    const auto record =
        DecideVerdict(InputOf({Norms(order.begin(), order.begin() + 2), {}, Norms(order.begin() + 2, order.end())}));
    ASSERT_EQ(record->grad_norm(), canonical);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(VerdictTest, ClipsToTheLargestNorm) {
  VerdictInput input = InputOf({{{"a", 16}}});
  input.max_grad_norm = 1;
  EXPECT_EQ(DecideVerdict(input)->clip_factor(), 1 / (4 + 1e-6));
  input.max_grad_norm = 5;
  EXPECT_EQ(DecideVerdict(input)->clip_factor(), 1);
  input.votes = {Vote({{"a", 0}})};
  EXPECT_EQ(DecideVerdict(input)->clip_factor(), 1);
}

TEST(VerdictTest, NormIsOfUnscaledGradients) {
  VerdictInput input = InputOf({{{"a", 64}}});
  input.loss_scale = 4;
  input.max_grad_norm = 1;
  const auto record = DecideVerdict(input);
  EXPECT_EQ(record->grad_norm(), 2);
  EXPECT_EQ(record->clip_factor(), 1 / (2 + 1e-6));
  EXPECT_EQ(record->loss_scale(), 4);
}

TEST(VerdictTest, SkipsWhenAnElementIsNotFinite) {
  VerdictInput input = InputOf({{{"a", 1}}, {{"b", 1}}});
  auto vote = Vote({{"b", 1}});
  vote->set_num_non_finite(1);
  input.votes[1] = vote;
  input.max_grad_norm = 0.5;
  const auto record = DecideVerdict(input);
  EXPECT_EQ(record->verdict(), v1::VERDICT_SKIP);
  EXPECT_EQ(record->num_updates(), 5u);
  EXPECT_EQ(record->clip_factor(), 1);
}

TEST(VerdictTest, SkipsWhenANormIsNotFinite) {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(DecideVerdict(InputOf({{{"a", 1}, {"b", bad}}}))->verdict(), v1::VERDICT_SKIP);
  }
  const double huge = std::numeric_limits<double>::max();
  EXPECT_EQ(DecideVerdict(InputOf({{{"a", huge}}, {{"b", huge}}}))->verdict(), v1::VERDICT_SKIP);
}

TEST(VerdictTest, ANonFiniteLossWithFiniteGradientsIsApplied) {
  VerdictInput input = InputOf({{{"a", 1}}});
  auto vote = Vote({{"a", 1}});
  *vote->add_loss_parts() = Part(0, std::numeric_limits<double>::infinity());
  input.votes = {vote};
  input.samples = {1};
  EXPECT_EQ(DecideVerdict(input)->verdict(), v1::VERDICT_APPLY);
}

TEST(VerdictTest, RefusesATensorWithTwoOwners) {
  const auto record = DecideVerdict(InputOf({{{"a", 1}}, {{"a", 1}}}));
  EXPECT_EQ(record.status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(record.status().message(), "two stages reported the gradient norm of a");
}

TEST(SumLossPartsTest, AddsInMicroBatchOrder) {
  const double small = 1, large = 1e16;
  EXPECT_EQ(*SumLossParts({Part(2, small), Part(0, large), Part(1, small)}, {1, 1, 1}), (large + small) + small);
  EXPECT_EQ(*SumLossParts({Part(1, small), Part(2, large), Part(0, small)}, {1, 1, 1}), (small + small) + large);
}

TEST(SumLossPartsTest, LeavesOutMicroBatchesWithoutSamples) {
  EXPECT_EQ(*SumLossParts({Part(0, 2), Part(1, std::nan(""))}, {3, 0}), 2);
  EXPECT_EQ(*SumLossParts({Part(0, 2)}, {3, 0, 0}), 2);
}

TEST(SumLossPartsTest, RefusesMissingDoubledAndUnknownParts) {
  EXPECT_EQ(SumLossParts({Part(0, 2)}, {1, 1}).status().message(), "no stage reported the loss of micro-batch 1");
  EXPECT_FALSE(SumLossParts({Part(0, 2), Part(0, 2)}, {1}).ok());
  EXPECT_FALSE(SumLossParts({Part(0, 2), Part(1, 2)}, {1}).ok());
}

}  // namespace
}  // namespace stagecoach
