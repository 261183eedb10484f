#include "coordinator/program/step_bound.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "coordinator/program/simulator.h"
#include "coordinator/program/testing/action.h"
#include "coordinator/schedule/compute_table.h"
#include "coordinator/schedule/stage_placement.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

constexpr auto kF = v1::ACTION_KIND_FORWARD;
constexpr auto kB = v1::ACTION_KIND_BACKWARD;
constexpr auto kI = v1::ACTION_KIND_BACKWARD_INPUT;
constexpr auto kW = v1::ACTION_KIND_BACKWARD_WEIGHT;

double BoundOf(const v1::ComputeTable& table, const ScheduleProblem& problem) {
  return StepBound(table, StageTimes(problem, *WorkersOfStages(table)));
}

// What a pipeline has to do, whatever the order, and how long it takes.
struct Pipeline {
  ScheduleProblem problem;
  StagePlacement placement = StagePlacement::kLoop;
  std::vector<v1::Action> actions;

  uint32_t num_stages() const { return problem.num_workers * problem.num_chunks; }
};

// Some stages in front without a backward, some above them without a W; backwards whole, apart, or some of each; now
// and then skip edges, which the bound leaves out.
Pipeline RandomPipeline(std::mt19937& random) {
  const auto below = [&](uint32_t end) { return static_cast<uint32_t>(random() % end); };
  Pipeline pipeline;
  ScheduleProblem& problem = pipeline.problem;
  problem.num_workers = 1 + below(4);
  problem.num_chunks = 1 + below(2);
  problem.num_micro_batches = 1 + below(4);
  problem.communication_seconds = below(2);
  if (problem.num_chunks == 2 && below(2) == 1) pipeline.placement = StagePlacement::kV;
  const uint32_t num_stages = pipeline.num_stages();
  const uint32_t lowest = below(2) == 0 ? 0 : below(num_stages + 1);
  const uint32_t whole = below(3);  // 0: none, 1: all, 2: some
  for (uint32_t stage = 0; stage < num_stages; ++stage) {
    problem.cost_of_stage.push_back({1.0 * below(5), 1.0 * below(5), 1.0 * below(5), 0});
    if (stage > 0) problem.edge_seconds.push_back(below(4));
    const bool has_weight = stage == lowest || below(4) > 0;
    for (uint32_t i = 0; i < problem.num_micro_batches; ++i) {
      pipeline.actions.push_back(MakeAction(kF, stage, i));
      if (stage < lowest) continue;
      const bool is_whole = has_weight && (whole == 1 || (whole == 2 && below(2) == 1));
      pipeline.actions.push_back(MakeAction(is_whole ? kB : kI, stage, i));
      if (has_weight && !is_whole) pipeline.actions.push_back(MakeAction(kW, stage, i));
    }
  }
  for (uint32_t i = below(2) * below(3); i > 0 && num_stages > 1; --i) {
    const uint32_t from = below(num_stages - 1);
    const uint32_t to = from + 1 + below(num_stages - from - 1);
    problem.skip_edges.push_back({from, to, 1.0 * below(4), from >= lowest && below(3) > 0});
  }
  return pipeline;
}

// Any order that runs.
class RandomOrder {
 public:
  RandomOrder(const Pipeline& pipeline, std::mt19937& random) : pipeline_(pipeline), left_(pipeline.actions) {
    table_ = EmptyTable(pipeline.problem, "random");
    for (; !left_.empty(); std::shuffle(left_.begin(), left_.end(), random)) {
      left_.erase(std::remove_if(left_.begin(), left_.end(), [this](const v1::Action& action) { return Take(action); }),
                  left_.end());
    }
  }
  const v1::ComputeTable& table() const { return table_; }

 private:
  bool IsDone(v1::ActionKind kind, uint32_t stage, uint32_t micro_batch) const {
    return done_.count({kind, stage, micro_batch}) > 0;
  }
  bool HasGradient(uint32_t stage, uint32_t i) const { return IsDone(kB, stage, i) || IsDone(kI, stage, i); }
  bool CanRun(const v1::Action& action) const {
    const uint32_t stage = action.stage();
    const uint32_t i = action.micro_batch();
    if (action.kind() == kF) return stage == 0 || IsDone(kF, stage - 1, i);
    if (action.kind() == kW) return IsDone(kI, stage, i);
    return IsDone(kF, stage, i) && (stage + 1 == pipeline_.num_stages() || HasGradient(stage + 1, i));
  }
  bool Take(const v1::Action& action) {
    if (!CanRun(action)) return false;
    const uint32_t worker = WorkerOfStage(pipeline_.placement, pipeline_.problem.num_workers, action.stage());
    *table_.mutable_workers(static_cast<int>(worker))->add_actions() = action;
    done_.insert({action.kind(), action.stage(), action.micro_batch()});
    return true;
  }

  const Pipeline& pipeline_;
  std::vector<v1::Action> left_;
  v1::ComputeTable table_;
  std::set<std::tuple<v1::ActionKind, uint32_t, uint32_t>> done_;
};

TEST(StepBoundTest, NoOrderIsShorter) {
  std::mt19937 random(11);
  int num_met = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    const Pipeline pipeline = RandomPipeline(random);
    const double bound = BoundOf(RandomOrder(pipeline, random).table(), pipeline.problem);
    double shortest = kMaxSeconds;
    for (int i = 0; i < 30; ++i) {
      const v1::ComputeTable table = RandomOrder(pipeline, random).table();
      const absl::StatusOr<Timeline> timeline = Simulate(table, pipeline.problem);
      ASSERT_TRUE(timeline.ok()) << timeline.status();
      // The makespan is from the first start on.
      double end = 0;
      for (const auto& row : timeline->workers) end = std::max(end, row.empty() ? 0 : row.back().end);
      ASSERT_GE(end, bound - 1e-9) << table.DebugString();
      ASSERT_DOUBLE_EQ(BoundOf(table, pipeline.problem), bound);
      shortest = std::min(shortest, end);
    }
    if (shortest < bound + 1e-9) ++num_met;
  }
  EXPECT_GT(num_met, 300);  // it says something
}

v1::ComputeTable TableOf(const std::vector<std::vector<v1::Action>>& rows, uint32_t num_micro_batches) {
  v1::ComputeTable table =
      EmptyTable({.num_workers = static_cast<uint32_t>(rows.size()), .num_micro_batches = num_micro_batches}, "test");
  for (size_t worker = 0; worker < rows.size(); ++worker) {
    for (const v1::Action& action : rows[worker])
      *table.mutable_workers(static_cast<int>(worker))->add_actions() = action;
  }
  return table;
}

// The W of the lowest stage come after its last I; those in a B do not.
TEST(StepBoundTest, AStageMayHaveItsBackwardsWholeAndAnotherApart) {
  const ScheduleProblem problem = {
      .num_workers = 2, .num_micro_batches = 2, .cost_of_stage = {{4, 4, 4, 0}, {1, 1, 1, 0}}};
  const std::vector<v1::Action> above = {MakeAction(kF, 1, 0), MakeAction(kI, 1, 0), MakeAction(kW, 1, 0),
                                         MakeAction(kF, 1, 1), MakeAction(kI, 1, 1), MakeAction(kW, 1, 1)};
  const v1::ComputeTable good =
      TableOf({{MakeAction(kF, 0, 0), MakeAction(kF, 0, 1), MakeAction(kB, 0, 0), MakeAction(kB, 0, 1)}, above}, 2);
  const v1::ComputeTable bad =
      TableOf({{MakeAction(kF, 0, 0), MakeAction(kB, 0, 0), MakeAction(kF, 0, 1), MakeAction(kB, 0, 1)}, above}, 2);
  EXPECT_EQ(BoundOf(good, problem), 24);
  EXPECT_EQ(BoundOf(bad, problem), 24);
  EXPECT_EQ(Simulate(good, problem)->makespan, 24);
  EXPECT_EQ(Simulate(bad, problem)->makespan, 28);
}

}  // namespace
}  // namespace stagecoach
