#include "coordinator/plan/schedule_choice.h"

#include <algorithm>
#include <string>
#include <vector>

#include "coordinator/schedule/gpipe.h"
#include "coordinator/schedule/one_f_one_b.h"
#include "coordinator/spec/model_graph.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

CutRequest Request(size_t num_workers, uint64_t memory_bytes = 0) {
  v1::JobSpec spec;
  spec.mutable_model()->set_architecture("gpt2");
  v1::ModelConfig& config = *spec.mutable_model()->mutable_config();
  config.set_num_hidden_layers(16);
  config.set_hidden_size(256);
  config.set_num_attention_heads(4);
  config.set_vocab_size(256);
  config.set_max_position_embeddings(128);
  spec.mutable_training()->set_seq_len(128);
  spec.mutable_training()->set_micro_batch_size(4);
  spec.mutable_optimizer()->set_name("adamw");
  CutRequest request;
  request.graph = *BuildModelGraph(spec);
  request.workers.resize(num_workers, {.memory_bytes = memory_bytes});
  request.seconds = AnalyticSeconds(request.graph, request.workers.front());
  request.state = StateOptionsOf(spec);
  request.num_micro_batches = 16;
  return request;
}

std::vector<const Schedule*> Named(const std::vector<std::string>& names) {
  std::vector<const Schedule*> schedules;
  for (const std::string& name : names) schedules.push_back(*FindSchedule(name));
  return schedules;
}

std::string ChosenOf(const CutRequest& request, const std::vector<std::string>& names, uint32_t num_chunks = 0) {
  const absl::StatusOr<ScheduleChoice> choice = ChooseSchedule(request, Named(names), num_chunks);
  return choice.ok() ? choice->candidates[choice->chosen].schedule : choice.status().ToString();
}

TEST(ScheduleChoiceTest, OfEqualStepsTheOneThatNeedsLessMemory) {
  const absl::StatusOr<ScheduleChoice> choice = ChooseSchedule(Request(4), Named({"gpipe", "1f1b"}), 0);
  ASSERT_TRUE(choice.ok()) << choice.status();
  ASSERT_EQ(choice->candidates.size(), 2u);
  const ScheduleCandidate& gpipe = choice->candidates[0];
  const ScheduleCandidate& one_f_one_b = choice->candidates[1];
  EXPECT_EQ(choice->chosen, 1u);
  EXPECT_GT(gpipe.peak_bytes, one_f_one_b.peak_bytes);
  EXPECT_EQ(one_f_one_b.step_seconds, choice->cut.step_seconds());
  EXPECT_EQ(one_f_one_b.peak_bytes, choice->cut.peak_bytes);
  EXPECT_GT(choice->cut.update_seconds, 0);
  EXPECT_GT(one_f_one_b.bubble_ratio, 0);
}

TEST(ScheduleChoiceTest, TheShortestStepThatFitsWins) {
  const std::vector<std::string> names = {"1f1b", "gpipe", "zb_h1", "zb_h2", "interleaved", "zb_v"};
  const absl::StatusOr<ScheduleChoice> choice = ChooseSchedule(Request(4), Named(names), 0);
  ASSERT_TRUE(choice.ok()) << choice.status();
  double one_f_one_b = 0;
  for (const ScheduleCandidate& candidate : choice->candidates) {
    ASSERT_TRUE(candidate.status.ok()) << candidate.schedule << ": " << candidate.status;
    EXPECT_LE(choice->cut.step_seconds(), candidate.step_seconds) << candidate.schedule;
    if (candidate.schedule == "1f1b") one_f_one_b = candidate.step_seconds;
  }
  EXPECT_LT(choice->cut.step_seconds(), one_f_one_b);

  // As much as 1f1b needs at least, which is less than any other needs.
  uint64_t least = UINT64_MAX;
  for (const ScheduleCandidate& candidate : choice->candidates) least = std::min(least, candidate.peak_bytes);
  const absl::StatusOr<ScheduleChoice> tight = ChooseSchedule(Request(4, least), Named(names), 0);
  ASSERT_TRUE(tight.ok()) << tight.status();
  EXPECT_LE(tight->cut.peak_bytes, least);
  EXPECT_GE(tight->cut.step_seconds(), choice->cut.step_seconds());
  for (const ScheduleCandidate& candidate : tight->candidates) {
    EXPECT_TRUE(candidate.status.ok() || absl::IsResourceExhausted(candidate.status)) << candidate.status;
  }
  EXPECT_EQ(tight->candidates[1].status.code(), absl::StatusCode::kResourceExhausted) << "gpipe";
}

TEST(ScheduleChoiceTest, ChunksAreThoseOfTheScheduleUnlessTheyAreGiven) {
  const absl::StatusOr<ScheduleChoice> made_for_two = ChooseSchedule(Request(4), Named({"interleaved", "zb_v"}), 0);
  ASSERT_TRUE(made_for_two.ok()) << made_for_two.status();
  for (const ScheduleCandidate& candidate : made_for_two->candidates) EXPECT_EQ(candidate.num_chunks, 2u);
  EXPECT_EQ(made_for_two->cut.partition.stages.size(), 8u);
  EXPECT_EQ(ChosenOf(Request(4), {"interleaved", "zb_v"}, 4), "interleaved");
  EXPECT_THAT(ChosenOf(Request(4), {"zb_v"}, 4), HasSubstr("two stages on each worker"));
  EXPECT_THAT(ChosenOf(Request(17), {"zb_v", "1f1b"}), HasSubstr("34 stages (17 workers x 2)"));
}

// Holds as 1f1b does when all stages are equal, and all micro-batches otherwise.
class TimeDependentSchedule final : public Schedule {
 public:
  absl::string_view name() const override { return "time_dependent"; }
  absl::string_view description() const override { return ""; }
  StagePlacement placement() const override { return StagePlacement::kLoop; }
  bool forward_only() const override { return false; }
  absl::StatusOr<v1::ComputeTable> Build(const ScheduleProblem& problem) const override {
    if (problem.cost_of_stage.empty()) return OneForwardOneBackwardSchedule().Build(problem);
    return GpipeSchedule().Build(problem);
  }
};

TEST(ScheduleChoiceTest, ACutFitsWhatItsOwnTableHolds) {
  const TimeDependentSchedule schedule;
  const absl::StatusOr<ScheduledCut> cut = CutForSchedule(Request(4), schedule, 1);
  ASSERT_TRUE(cut.ok()) << cut.status();
  for (const StageSlotCounts& slots : cut->problem.slots) EXPECT_EQ(slots.saved, 16u);
  const uint64_t of_1f1b = CutForSchedule(Request(4), OneForwardOneBackwardSchedule(), 1)->peak_bytes;
  EXPECT_EQ(CutForSchedule(Request(4, of_1f1b), schedule, 1).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(ScheduleChoiceTest, FasterWorkersGetMoreLayersAndTimesOfTheirOwn) {
  CutRequest request = Request(2);
  request.workers[1].flops_per_second *= 3;
  const absl::StatusOr<ScheduledCut> cut = CutForSchedule(request, OneForwardOneBackwardSchedule(), 1);
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_THAT(cut->partition.stages, ElementsAre(LayerRange{0, 4}, LayerRange{5, 18}));
  const std::vector<StageCost>& costs = cut->schedule_problem.cost_of_stage;
  EXPECT_NEAR(costs[0].forward, costs[1].forward, 0.2 * costs[0].forward);
}

}  // namespace
}  // namespace stagecoach
