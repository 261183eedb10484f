#include "coordinator/schedule/auto_bound.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/schedule/auto_random.h"
#include "coordinator/schedule/auto_schedule.h"
#include "coordinator/schedule/auto_timing.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

// Every order of a worker's actions that its own inputs and memory allow.
class RowsOfWorker {
 public:
  RowsOfWorker(const AutoGraph& graph, uint32_t worker) : graph_(graph), worker_(worker) {
    next_.resize(size_t{graph.num_stages()} * kNumAutoKinds);
    Extend();
  }
  const std::vector<std::vector<uint32_t>>& rows() const { return rows_; }

 private:
  bool MayRun(uint32_t stage, uint32_t kind) const {
    const uint32_t done = next_[stage * kNumAutoKinds + kind];
    if (kind > 0) return done < next_[stage * kNumAutoKinds + kind - 1];
    return done < graph_.num_micro_batches() && num_held_ < graph_.capacity(worker_);
  }

  void Extend() {
    if (row_.size() == size_t{graph_.num_chunks()} * kNumAutoKinds * graph_.num_micro_batches()) rows_.push_back(row_);
    for (const uint32_t stage : graph_.stages(worker_)) {
      for (uint32_t kind = 0; kind < kNumAutoKinds; ++kind) {
        if (!MayRun(stage, kind)) continue;
        uint32_t& next = next_[stage * kNumAutoKinds + kind];
        row_.push_back(graph_.Index(stage, static_cast<AutoKind>(kind), next++));
        const int held = kind == 0 ? 1 : kind == 2 ? -1 : 0;
        num_held_ += static_cast<uint32_t>(held);
        Extend();
        num_held_ -= static_cast<uint32_t>(held);
        row_.pop_back();
        --next;
      }
    }
  }

  const AutoGraph& graph_;
  const uint32_t worker_;
  std::vector<uint32_t> next_;
  uint32_t num_held_ = 0;
  std::vector<uint32_t> row_;
  std::vector<std::vector<uint32_t>> rows_;
};

// Of all tables there are.
double Optimum(const AutoGraph& graph) {
  std::vector<std::vector<std::vector<uint32_t>>> choices;
  for (uint32_t worker = 0; worker < graph.num_workers(); ++worker) {
    choices.push_back(RowsOfWorker(graph, worker).rows());
  }
  AutoTiming timing(graph);
  AutoRows rows(graph.num_workers());
  double optimum = std::numeric_limits<double>::infinity();
  const std::function<void(uint32_t)> choose = [&](uint32_t worker) {
    if (worker == graph.num_workers()) {
      if (timing.Run(rows)) optimum = std::min(optimum, timing.cost().worst);
      return;
    }
    for (const std::vector<uint32_t>& row : choices[worker]) {
      rows[worker] = row;
      choose(worker + 1);
    }
  };
  choose(0);
  return optimum;
}

struct Size {
  uint32_t num_workers;
  uint32_t num_chunks;
  uint32_t num_micro_batches;
};

ScheduleProblem RandomProblem(AutoRandom& random, const Size& size) {
  ScheduleProblem problem = {
      .num_workers = size.num_workers, .num_chunks = size.num_chunks, .num_micro_batches = size.num_micro_batches};
  problem.communication_seconds = random.Coin() ? random.Unit() : 0;
  for (uint32_t stage = 0; stage < size.num_workers * size.num_chunks; ++stage) {
    problem.cost_of_stage.push_back({random.Unit(), random.Unit(), random.Unit()});
    if (stage > 0) problem.edge_seconds.push_back(random.Coin() ? random.Unit() : 0);
  }
  for (uint32_t worker = 0; worker < size.num_workers && random.Coin(); ++worker) {
    problem.memory_limit.resize(size.num_workers, size.num_micro_batches);
    problem.memory_limit[worker] = 1 + random.Below(size.num_micro_batches);
  }
  problem.objective = random.Coin() ? Objective::kSpan : Objective::kDevice;
  return problem;
}

// Returns how many instances the bound was tight for.
int CompareWithOptimum(const Size& size, int num_instances, uint64_t seed) {
  AutoRandom random(seed);
  int num_tight = 0;
  for (int i = 0; i < num_instances; ++i) {
    SCOPED_TRACE(absl::StrCat("P=", size.num_workers, " V=", size.num_chunks, " instance ", i));
    const ScheduleProblem problem = RandomProblem(random, size);
    double optimum = Optimum(AutoGraph(problem, StagePlacement::kLoop));
    if (size.num_chunks == 2) optimum = std::min(optimum, Optimum(AutoGraph(problem, StagePlacement::kV)));
    const AutoResult result = *SearchSchedule(problem, {.effort = 0.2});
    EXPECT_LE(result.lower_bound_seconds, optimum * (1 + 1e-12));
    EXPECT_NEAR(result.seconds, optimum, 1e-9) << "the search found no optimum";
    if (result.lower_bound_seconds > optimum * (1 - 1e-12)) ++num_tight;
  }
  return num_tight;
}

TEST(AutoBoundTest, NoTableBeatsItAndTheSearchFindsTheBestOfSmallProblems) {
  int num_tight = 0;
  num_tight += CompareWithOptimum({2, 1, 3}, 60, 1);
  num_tight += CompareWithOptimum({3, 1, 2}, 60, 2);
  num_tight += CompareWithOptimum({2, 2, 1}, 60, 3);
  EXPECT_GT(num_tight, 120);
}

TEST(AutoBoundTest, CountsTheTimeThatMemoryIsHeld) {
  // One micro-batch at a time: each waits for the whole way of the one before, 2 x 3 and hops of 0.5 there and back.
  const ScheduleProblem problem = {
      .num_workers = 2, .num_micro_batches = 4, .communication_seconds = 0.5, .memory_limit = {1, 1}};
  EXPECT_EQ(AutoBound(AutoGraph(problem, StagePlacement::kLoop)).seconds(), 4 * 6);
  ScheduleProblem chunks = problem;
  chunks.num_chunks = 2;
  const AutoGraph graph(chunks, StagePlacement::kV);
  // Stage 0 is held for 4 F, 4 I, 4 hops and a W, stage 3 for F, I and W; there is room for two.
  EXPECT_GE(AutoBound(graph).seconds(), 4 * (11 + 3) / 2);
}

TEST(AutoBoundTest, CountsWhatMustBeDoneBeforeTheLastInputGradient) {
  // The device objective of the Zero Bubble paper's 1.5B model, M = 24: the last worker can leave W for the time the
  // last gradient travels up, but no more than its memory holds.
  ScheduleProblem problem = {.num_workers = 8, .num_micro_batches = 24, .communication_seconds = 0.601};
  problem.cost_of_stage.assign(8, {18.522, 18.086, 9.337});
  problem.objective = Objective::kDevice;
  const double busy = 24 * (18.522 + 18.086 + 9.337);
  const auto bubble = [&](double limit) {
    problem.memory_limit.assign(8, limit);
    return 1 - busy / AutoBound(AutoGraph(problem, StagePlacement::kLoop)).seconds();
  };
  EXPECT_NEAR(bubble(8), 0.1585, 5e-5);
  EXPECT_NEAR(bubble(16), 0.1015, 5e-5);
  EXPECT_NEAR(bubble(24), 0.0433, 5e-5);
}

}  // namespace
}  // namespace stagecoach
