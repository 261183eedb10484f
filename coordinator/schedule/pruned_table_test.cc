#include "coordinator/schedule/pruned_table.h"

#include <map>
#include <tuple>
#include <vector>

#include "coordinator/schedule/compute_csv.h"
#include "coordinator/schedule/recomputing_table.h"
#include "coordinator/schedule/schedule.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

constexpr StageBackward kAll = {};
constexpr StageBackward kLowest = {.input = true, .weight = true, .sends_gradient = false};
constexpr StageBackward kInputAlone = {.input = true, .weight = false, .sends_gradient = true};
constexpr StageBackward kNone = {.input = false, .weight = false, .sends_gradient = false};

TEST(PrunedTableTest, WholeBackwardsBecomeWhatIsLeftOfThem) {
  const auto table = (*FindSchedule("1f1b"))->Build({.num_workers = 3, .num_micro_batches = 2});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(ComputeCsv(WithoutFrozen(*table, {kNone, kLowest, kInputAlone})),
            "0F0,0F1\n"
            "1F0,1F1,1B0,1B1\n"
            "2F0,2I0,2F1,2I1\n");
  EXPECT_EQ(ComputeCsv(WithoutFrozen(*table, {kLowest, kAll, kAll})), ComputeCsv(*table));
}

TEST(PrunedTableTest, SplitBackwardsAndRecomputationAreDroppedOneByOne) {
  const auto table = (*FindSchedule("zb_h1"))->Build({.num_workers = 2, .num_micro_batches = 1});
  ASSERT_TRUE(table.ok()) << table.status();
  const v1::ComputeTable with = WithRecomputation(*table, {true, true});
  EXPECT_EQ(ComputeCsv(WithoutFrozen(with, {kLowest, kInputAlone})), "0F0,0R0,0I0,0W0\n1F0,1R0,1I0\n");
  EXPECT_EQ(ComputeCsv(WithoutFrozen(with, {kNone, kLowest})), "0F0\n1F0,1R0,1I0,1W0\n");
}

using Counts = std::map<std::tuple<v1::ActionKind, uint32_t>, uint32_t>;  // by kind and stage

Counts Count(const v1::ComputeTable& table) {
  Counts counts;
  for (const v1::WorkerActions& row : table.workers()) {
    for (const v1::Action& action : row.actions()) {
      if (action.kind() != v1::ACTION_KIND_BACKWARD) {
        ++counts[{action.kind(), action.stage()}];
        continue;
      }
      ++counts[{v1::ACTION_KIND_BACKWARD_INPUT, action.stage()}];
      ++counts[{v1::ACTION_KIND_BACKWARD_WEIGHT, action.stage()}];
    }
  }
  return counts;
}

TEST(PrunedTableTest, OfEverySchedule) {
  constexpr uint32_t kMicroBatches = 7;
  for (const Schedule* schedule : HandMadeSchedules()) {
    if (schedule->forward_only()) continue;
    const uint32_t chunks = schedule->default_chunks();
    const auto table = schedule->Build({.num_workers = 4, .num_chunks = chunks, .num_micro_batches = kMicroBatches});
    ASSERT_TRUE(table.ok()) << table.status();
    std::vector<StageBackward> backward(table->num_stages(), kAll);
    backward[0] = kNone;
    backward[1] = kLowest;
    backward.back() = kInputAlone;
    const v1::ComputeTable pruned = WithoutFrozen(*table, backward);
    Counts expected = Count(*table);
    expected.erase({v1::ACTION_KIND_BACKWARD_INPUT, 0});
    expected.erase({v1::ACTION_KIND_BACKWARD_WEIGHT, 0});
    expected.erase({v1::ACTION_KIND_BACKWARD_WEIGHT, table->num_stages() - 1});
    EXPECT_EQ(Count(pruned), expected) << schedule->name();
    EXPECT_EQ(BackwardOfTable(pruned), backward) << schedule->name();
  }
}

TEST(PrunedTableTest, AnEvaluationHasNoBackward) {
  const auto table = (*FindSchedule("forward_only"))->Build({.num_workers = 2, .num_micro_batches = 3});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(BackwardOfTable(*table), (std::vector<StageBackward>{kNone, kNone}));
}

}  // namespace
}  // namespace stagecoach
