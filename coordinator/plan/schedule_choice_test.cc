#include "coordinator/plan/schedule_choice.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "coordinator/plan/testing/small_job.h"
#include "coordinator/schedule/gpipe.h"
#include "coordinator/schedule/one_f_one_b.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using testing::EqualWorkers;
using ::testing::HasSubstr;
using testing::SmallCutRequest;

CutRequest Request(size_t num_workers, uint64_t memory_bytes = 0) {
  return SmallCutRequest(EqualWorkers(num_workers, memory_bytes));
}

// With `num_chunks` stages on each worker, or (0) as many as each is made for.
std::vector<ScheduleOption> Named(const std::vector<std::string>& names, uint32_t num_chunks = 0) {
  std::vector<ScheduleOption> options;
  for (const std::string& name : names) {
    const Schedule* schedule = *FindSchedule(name);
    options.push_back({schedule, num_chunks == 0 ? schedule->default_chunks() : num_chunks});
  }
  return options;
}

std::map<std::string, ScheduleCandidate> ByName(const ScheduleChoice& choice) {
  std::map<std::string, ScheduleCandidate> by_name;
  for (const ScheduleCandidate& candidate : choice.candidates) by_name[candidate.schedule] = candidate;
  return by_name;
}

std::string ChosenOf(const CutRequest& request, const std::vector<std::string>& names, uint32_t num_chunks = 0) {
  const absl::StatusOr<ScheduleChoice> choice = ChooseSchedule(request, Named(names, num_chunks));
  return choice.ok() ? choice->candidates[0].schedule : choice.status().ToString();
}

TEST(ScheduleChoiceTest, OfEqualStepsTheOneThatNeedsLessMemory) {
  const absl::StatusOr<ScheduleChoice> choice = ChooseSchedule(Request(1), Named({"gpipe", "1f1b"}));
  ASSERT_TRUE(choice.ok()) << choice.status();
  ASSERT_EQ(choice->candidates.size(), 2u);
  const ScheduleCandidate& one_f_one_b = choice->candidates[0];
  const ScheduleCandidate& gpipe = choice->candidates[1];
  EXPECT_EQ(one_f_one_b.schedule, "1f1b");
  EXPECT_NEAR(one_f_one_b.step_seconds, gpipe.step_seconds, 1e-9 * gpipe.step_seconds);
  EXPECT_GT(gpipe.peak_bytes, one_f_one_b.peak_bytes);
  EXPECT_EQ(one_f_one_b.step_seconds, choice->cut.step_seconds());
  EXPECT_EQ(one_f_one_b.peak_bytes, choice->cut.peak_bytes);
  EXPECT_GT(choice->cut.update_seconds, 0);
}

TEST(ScheduleChoiceTest, TheShortestStepThatFitsWins) {
  const std::vector<std::string> names = {"1f1b", "gpipe", "zb_h1", "zb_h2", "interleaved", "zb_v"};
  const absl::StatusOr<ScheduleChoice> choice = ChooseSchedule(Request(4), Named(names));
  ASSERT_TRUE(choice.ok()) << choice.status();
  double before = choice->cut.step_seconds();
  uint64_t least = UINT64_MAX;
  for (const ScheduleCandidate& candidate : choice->candidates) {
    ASSERT_TRUE(candidate.status.ok()) << candidate.schedule << ": " << candidate.status;
    EXPECT_LE(before, candidate.step_seconds) << candidate.schedule << " is out of order";
    before = candidate.step_seconds;
    least = std::min(least, candidate.peak_bytes);
  }
  EXPECT_LT(choice->cut.step_seconds(), ByName(*choice)["1f1b"].step_seconds);

  // As much as 1f1b needs at least, which is less than any other needs.
  const absl::StatusOr<ScheduleChoice> tight = ChooseSchedule(Request(4, least), Named(names));
  ASSERT_TRUE(tight.ok()) << tight.status();
  EXPECT_LE(tight->cut.peak_bytes, least);
  EXPECT_GE(tight->cut.step_seconds(), choice->cut.step_seconds());
  const absl::Status of_gpipe = ByName(*tight)["gpipe"].status;
  EXPECT_EQ(of_gpipe.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(of_gpipe.message()), ContainsRegex("its best cut lacks [0-9]+ bytes on worker"));
  bool fits = true;
  for (const ScheduleCandidate& candidate : tight->candidates) {
    EXPECT_TRUE(candidate.status.ok() || absl::IsResourceExhausted(candidate.status)) << candidate.status;
    EXPECT_TRUE(fits || !candidate.status.ok()) << candidate.schedule << " is behind one that does not fit";
    fits = candidate.status.ok();
  }
}

TEST(ScheduleChoiceTest, ChunksAreThoseOfTheOption) {
  const absl::StatusOr<ScheduleChoice> of_two = ChooseSchedule(Request(4), Named({"interleaved", "zb_v"}));
  ASSERT_TRUE(of_two.ok()) << of_two.status();
  for (const ScheduleCandidate& candidate : of_two->candidates) EXPECT_EQ(candidate.num_chunks, 2u);
  EXPECT_EQ(of_two->cut.partition.stages.size(), 8u);
  EXPECT_EQ(ChosenOf(Request(4), {"interleaved", "zb_v"}, 4), "interleaved");
  EXPECT_THAT(ChosenOf(Request(4), {"zb_v"}, 4), HasSubstr("two stages on each worker"));
  EXPECT_THAT(ChosenOf(Request(17), {"zb_v", "1f1b"}), HasSubstr("34 stages (17 workers x 2)"));
}

constexpr uint64_t kMemory = UINT64_C(1) << 40;

// What workers with kMemory need: `more` bytes than they have with one schedule, nothing with others. Keeps the
// schedules that were lowered.
LoweredBytes NeedsMore(const std::string& schedule, const uint64_t& more, std::vector<std::string>& lowered) {
  return [&, schedule](const ScheduledCut& cut) -> absl::StatusOr<std::vector<uint64_t>> {
    lowered.push_back(cut.table.schedule());
    return std::vector<uint64_t>(4, cut.table.schedule() == schedule ? kMemory + more : 0);
  };
}

TEST(ScheduleChoiceTest, WhatLacksMemoryOnceLoweredIsCutAgainAndCompetesAsThat) {
  const CutRequest request = Request(4, kMemory);
  const std::vector<ScheduleOption> options = Named({"1f1b", "zb_h1"});
  ASSERT_EQ(ChosenOf(request, {"1f1b", "zb_h1"}), "zb_h1");
  std::vector<std::string> lowered;
  uint64_t more = 0;
  const LoweredBytes needs_more = NeedsMore("zb_h1", more, lowered);
  EXPECT_EQ(ChooseSchedule(request, options, needs_more)->candidates[0].schedule, "zb_h1");
  EXPECT_THAT(lowered, ElementsAre("zb_h1"));
  // Nothing is left for it.
  more = kMemory;
  lowered.clear();
  const absl::StatusOr<ScheduleChoice> other = ChooseSchedule(request, options, needs_more);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_THAT(lowered, ElementsAre("zb_h1", "1f1b"));
  EXPECT_EQ(other->candidates[0].schedule, "1f1b");
  EXPECT_EQ(other->candidates[1].status.code(), absl::StatusCode::kResourceExhausted);
  const auto fails = [](const ScheduledCut&) { return absl::InternalError("cannot be lowered"); };
  EXPECT_EQ(ChooseSchedule(request, options, fails).status().code(), absl::StatusCode::kInternal);
}

// Each cut says that its worker 0 needs a byte too much.
TEST(ScheduleChoiceTest, CutsThatKeepLackingMemoryEnd) {
  std::vector<std::vector<uint64_t>> reckoned;
  const LoweredBytes lowered_bytes = [&](const ScheduledCut& cut) -> absl::StatusOr<std::vector<uint64_t>> {
    reckoned.push_back(NeededBytes(cut.problem, cut.partition.stages));
    return std::vector<uint64_t>{kMemory + 1, 0, 0, 0};
  };
  for (const char* schedule : {"1f1b", "zb_v"}) {
    reckoned.clear();
    const absl::Status status = ChooseSchedule(Request(4, kMemory), Named({schedule}), lowered_bytes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    ASSERT_GT(reckoned.size(), 1u) << schedule;
    EXPECT_LE(reckoned.size(), 8u);
    for (size_t i = 1; i < reckoned.size(); ++i) EXPECT_LT(reckoned[i][0], reckoned[i - 1][0]) << schedule;
  }
}

// The stages of a worker take turns in its buffers, which the partitioner does not know.
TEST(ScheduleChoiceTest, WhereWorkersHaveSeveralStagesLoweringDecidesWhatFits) {
  const std::vector<ScheduleOption> options = Named({"zb_v"});
  const uint64_t reckoned = CutForSchedule(Request(4), options[0])->peak_bytes;
  const CutRequest request = Request(4, reckoned / 2);
  ASSERT_FALSE(CutForSchedule(request, options[0]).ok());
  uint64_t needed = reckoned / 2;
  const LoweredBytes lowered_bytes = [&](const ScheduledCut&) { return std::vector<uint64_t>(4, needed); };
  EXPECT_TRUE(ChooseSchedule(request, options, lowered_bytes).ok());
  needed = reckoned;
  const absl::Status status = ChooseSchedule(request, options, lowered_bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("its best cut lacks "));
}

TEST(ScheduleChoiceTest, AnOrderThatIsShorterThanTheBestScheduleIsChosen) {
  CutRequest request = Request(4, kMemory);
  request.searches_order = true;
  std::vector<std::string> lowered;
  uint64_t more = 0;
  const absl::StatusOr<ScheduleChoice> choice =
      ChooseSchedule(request, Named({"gpipe", "1f1b"}), NeedsMore("auto", more, lowered));
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_THAT(lowered, ElementsAre("1f1b", "auto"));
  ASSERT_EQ(choice->candidates.size(), 3u);
  EXPECT_EQ(choice->candidates[0].schedule, "auto");
  EXPECT_EQ(choice->candidates[0].num_chunks, 1u);
  EXPECT_EQ(choice->candidates[1].schedule, "1f1b");
  EXPECT_LT(choice->candidates[0].step_seconds, choice->candidates[1].step_seconds * (1 - kLeastGainOfOrder));
  EXPECT_EQ(choice->candidates[0].step_seconds, choice->cut.step_seconds());
  EXPECT_EQ(choice->candidates[0].peak_bytes, choice->cut.peak_bytes);
  EXPECT_TRUE(choice->cut.is_searched);
  EXPECT_EQ(choice->cut.table.schedule(), "auto");
  // It is the order of the same stages.
  const absl::StatusOr<ScheduledCut> of_1f1b = CutForSchedule(request, Named({"1f1b"})[0]);
  EXPECT_EQ(choice->cut.partition.stages, of_1f1b->partition.stages);
}

TEST(ScheduleChoiceTest, AnOrderThatLacksMemoryOnceLoweredIsNot) {
  CutRequest request = Request(4, kMemory);
  request.searches_order = true;
  std::vector<std::string> lowered;
  uint64_t more = 7;
  const absl::StatusOr<ScheduleChoice> choice =
      ChooseSchedule(request, Named({"1f1b"}), NeedsMore("auto", more, lowered));
  ASSERT_TRUE(choice.ok()) << choice.status();
  // What was lowered last is chosen.
  EXPECT_THAT(lowered, ElementsAre("1f1b", "auto", "1f1b"));
  EXPECT_EQ(choice->candidates[0].schedule, "1f1b");
  EXPECT_FALSE(choice->cut.is_searched);
  EXPECT_EQ(choice->candidates[1].schedule, "auto");
  EXPECT_EQ(std::string(choice->candidates[1].status.message()), "its order lacks 7 bytes on worker 0");
}

TEST(ScheduleChoiceTest, NoOrderIsSearchedForOneWorkerOrWhereNobodyAskedForIt) {
  std::vector<std::string> lowered;
  uint64_t more = 0;
  const LoweredBytes fits = NeedsMore("", more, lowered);
  CutRequest request = Request(4, kMemory);
  EXPECT_EQ(ChooseSchedule(request, Named({"1f1b"}), fits)->candidates.size(), 1u);
  request.searches_order = true;
  EXPECT_EQ(ChooseSchedule(request, Named({"1f1b"}))->candidates.size(), 1u);  // what is not lowered may not fit
  // One worker is never idle.
  request.workers.resize(1);
  EXPECT_EQ(ChooseSchedule(request, Named({"1f1b"}), fits)->candidates.size(), 1u);
  EXPECT_THAT(lowered, ElementsAre("1f1b", "1f1b"));
}

TEST(ScheduleChoiceTest, SomeScheduleFitsWhenAnyDoes) {
  const std::vector<ScheduleOption> options = Named({"gpipe", "1f1b"});
  const uint64_t of_1f1b = CutForSchedule(Request(4), options[1])->peak_bytes;
  EXPECT_TRUE(SomeScheduleFits(Request(4, of_1f1b), options));
  EXPECT_FALSE(SomeScheduleFits(Request(4, of_1f1b), Named({"gpipe"})));
  EXPECT_FALSE(SomeScheduleFits(Request(17), options));
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
  const absl::StatusOr<ScheduledCut> cut = CutForSchedule(Request(4), {&schedule, 1});
  ASSERT_TRUE(cut.ok()) << cut.status();
  for (const StageSlotCounts& slots : cut->problem.slots) EXPECT_EQ(slots.saved, 16u);
  const uint64_t of_1f1b = CutForSchedule(Request(4), Named({"1f1b"})[0])->peak_bytes;
  EXPECT_EQ(CutForSchedule(Request(4, of_1f1b), {&schedule, 1}).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(ScheduleChoiceTest, FasterWorkersGetMoreLayersAndTimesOfTheirOwn) {
  CutRequest request = Request(2);
  request.workers[1].flops_per_second *= 3;
  const absl::StatusOr<ScheduledCut> cut = CutForSchedule(request, Named({"1f1b"})[0]);
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_THAT(cut->partition.stages, ElementsAre(LayerRange{0, 4}, LayerRange{5, 18}));
  const std::vector<StageCost>& costs = cut->schedule_problem.cost_of_stage;
  EXPECT_NEAR(costs[0].forward, costs[1].forward, 0.2 * costs[0].forward);
}

}  // namespace
}  // namespace stagecoach
