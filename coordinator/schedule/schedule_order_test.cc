// Every schedule over many problems: each action once, in an order that a transport can carry.

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/schedule/schedule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

constexpr auto F = v1::ACTION_KIND_FORWARD;
constexpr auto B = v1::ACTION_KIND_BACKWARD;
constexpr auto I = v1::ACTION_KIND_BACKWARD_INPUT;
constexpr auto W = v1::ACTION_KIND_BACKWARD_WEIGHT;

std::vector<ScheduleProblem> Problems(const Schedule& schedule) {
  std::vector<ScheduleProblem> problems;
  for (uint32_t p = 1; p <= 8; ++p) {
    for (uint32_t v = 1; v <= 4; ++v) {
      for (uint32_t m = 1; m <= 4 * p && schedule.AcceptsChunks(v); ++m) {
        problems.push_back({.num_workers = p, .num_chunks = v, .num_micro_batches = m});
      }
    }
  }
  return problems;
}

std::string TextOf(const Schedule& schedule, const ScheduleProblem& problem) {
  return absl::StrCat(schedule.name(), " P=", problem.num_workers, " V=", problem.num_chunks,
                      " M=", problem.num_micro_batches);
}

std::vector<uint32_t> MicroBatchesOf(const v1::WorkerActions& row, uint32_t stage,
                                     const std::set<v1::ActionKind>& kinds) {
  std::vector<uint32_t> result;
  for (const v1::Action& action : row.actions()) {
    if (action.stage() == stage && kinds.count(action.kind()) > 0) result.push_back(action.micro_batch());
  }
  return result;
}

// Each F once, then either its B or its I and W; all of them in micro-batch order, so that no edge needs to reorder.
void ExpectEachActionOnceAndInOrder(const Schedule& schedule, const ScheduleProblem& problem,
                                    const v1::ComputeTable& table) {
  std::vector<uint32_t> all(problem.num_micro_batches);
  for (uint32_t i = 0; i < all.size(); ++i) all[i] = i;
  const std::vector<uint32_t> backwards = schedule.forward_only() ? std::vector<uint32_t>{} : all;
  int num_actions = 0;
  for (uint32_t stage = 0; stage < table.num_stages(); ++stage) {
    const uint32_t worker = WorkerOfStage(schedule.placement(), problem.num_workers, stage);
    const v1::WorkerActions& row = table.workers(static_cast<int>(worker));
    EXPECT_EQ(MicroBatchesOf(row, stage, {F}), all);
    EXPECT_EQ(MicroBatchesOf(row, stage, {B, I}), backwards);
    EXPECT_EQ(MicroBatchesOf(row, stage, {B, W}), backwards);
    EXPECT_EQ(MicroBatchesOf(row, stage, {I}), MicroBatchesOf(row, stage, {W}));
    num_actions += static_cast<int>(MicroBatchesOf(row, stage, {F, B, I, W}).size());
  }
  for (const v1::WorkerActions& row : table.workers()) num_actions -= row.actions_size();
  EXPECT_EQ(num_actions, 0) << "a row holds something else";
}

// Runs the rows when a sender may be one transfer ahead of its receiver, on edges between the last worker and the first
// `around` transfers: a pass that would send more waits. A buffer at each end holds two under rendezvous sends.
class BoundedRun {
 public:
  BoundedRun(const v1::ComputeTable& table, uint32_t around)
      : table_(table),
        around_(around),
        worker_of_stage_(*WorkersOfStages(table)),
        next_(static_cast<size_t>(table.workers_size())) {}

  bool Completes() {
    for (bool progress = true; progress;) {
      progress = false;
      for (int worker = 0; worker < table_.workers_size(); ++worker) progress |= AdvanceRow(worker);
    }
    for (int worker = 0; worker < table_.workers_size(); ++worker) {
      if (next_[static_cast<size_t>(worker)] < table_.workers(worker).actions_size()) return false;
    }
    return true;
  }

 private:
  using Done = std::set<std::tuple<bool, uint32_t, uint32_t>>;  // is a forward, stage, micro-batch

  bool AdvanceRow(int worker) {
    int& next = next_[static_cast<size_t>(worker)];
    const int before = next;
    while (next < table_.workers(worker).actions_size() && Run(table_.workers(worker).actions(next))) ++next;
    return next > before;
  }

  bool Run(const v1::Action& action) {
    const uint32_t stage = action.stage();
    if (action.kind() == W) return done_.count({false, stage, action.micro_batch()}) > 0;
    const bool forward = action.kind() == F;
    const bool is_first = stage == (forward ? 0 : table_.num_stages() - 1);
    const bool is_last = stage == (forward ? table_.num_stages() - 1 : 0);
    const uint32_t from = forward ? stage - 1 : stage + 1;
    const uint32_t to = forward ? stage + 1 : stage - 1;
    if (!forward && done_.count({true, stage, action.micro_batch()}) == 0) return false;
    if (!is_first && done_.count({forward, from, action.micro_batch()}) == 0) return false;
    if (!is_last && unread_[{forward, stage}] == Capacity(stage, to)) return false;
    if (!is_first) --unread_[{forward, from}];
    if (!is_last) ++unread_[{forward, stage}];
    done_.insert({forward, stage, action.micro_batch()});
    return true;
  }

  uint32_t Capacity(uint32_t from_stage, uint32_t to_stage) const {
    const uint32_t last_worker = static_cast<uint32_t>(table_.workers_size()) - 1;
    const uint32_t from = worker_of_stage_[from_stage];
    const uint32_t to = worker_of_stage_[to_stage];
    if (from == to) return table_.num_micro_batches();
    const bool goes_around = to_stage > from_stage ? from == last_worker && to == 0 : from == 0 && to == last_worker;
    return goes_around ? around_ : 1;
  }

  const v1::ComputeTable& table_;
  const uint32_t around_;
  const std::vector<uint32_t> worker_of_stage_;
  std::vector<int> next_;
  Done done_;
  std::map<std::pair<bool, uint32_t>, uint32_t> unread_;  // by direction and sending stage
};

TEST(ScheduleOrderTest, EveryTableHoldsEachActionOnceAndInMicroBatchOrder) {
  for (const Schedule* schedule : HandMadeSchedules()) {
    for (const ScheduleProblem& problem : Problems(*schedule)) {
      SCOPED_TRACE(TextOf(*schedule, problem));
      const absl::StatusOr<v1::ComputeTable> table = schedule->Build(problem);
      ASSERT_TRUE(table.ok()) << table.status();
      ASSERT_EQ(table->workers_size(), static_cast<int>(problem.num_workers));
      ASSERT_EQ(table->num_stages(), problem.num_workers * problem.num_chunks);
      EXPECT_EQ(table->num_micro_batches(), problem.num_micro_batches);
      EXPECT_EQ(table->schedule(), schedule->name());
      ExpectEachActionOnceAndInOrder(*schedule, problem, *table);
    }
  }
}

TEST(ScheduleOrderTest, NoTableDeadlocksWithOneTransferUnderWay) {
  for (const Schedule* schedule : HandMadeSchedules()) {
    for (const ScheduleProblem& problem : Problems(*schedule)) {
      const bool has_large_groups = schedule->name() == "interleaved" && problem.num_chunks > 1 &&
                                    problem.num_micro_batches % problem.num_workers != 0;
      if (has_large_groups) continue;
      const absl::StatusOr<v1::ComputeTable> table = schedule->Build(problem);
      ASSERT_TRUE(table.ok()) << table.status();
      EXPECT_TRUE(BoundedRun(*table, 1).Completes()) << TextOf(*schedule, problem);
    }
  }
}

// What a group has beyond P micro-batches reaches the first worker before it goes on with the next chunk.
TEST(ScheduleOrderTest, LargeInterleavedGroupsNeedRoomBetweenTheLastWorkerAndTheFirst) {
  const Schedule& interleaved = **FindSchedule("interleaved");
  for (const ScheduleProblem& problem : Problems(interleaved)) {
    const uint32_t num_groups = std::max(1u, problem.num_micro_batches / problem.num_workers);
    const uint32_t largest_group = (problem.num_micro_batches + num_groups - 1) / num_groups;
    if (problem.num_workers == 1 || problem.num_chunks == 1 || largest_group <= problem.num_workers) continue;
    const v1::ComputeTable table = *interleaved.Build(problem);
    const uint32_t beyond = largest_group - problem.num_workers;
    EXPECT_FALSE(BoundedRun(table, beyond).Completes()) << TextOf(interleaved, problem);
    EXPECT_TRUE(BoundedRun(table, beyond + 1).Completes()) << TextOf(interleaved, problem);
  }
}

}  // namespace
}  // namespace stagecoach
