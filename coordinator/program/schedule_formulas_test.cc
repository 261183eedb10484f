// Closed forms of bubbles without communication: exact, since every time is a small integer. They are given in costs of
// one stage, 1 / V of a full stage.

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "coordinator/program/simulator.h"
#include "coordinator/schedule/schedule.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

struct Bubbles {
  double span = 0;    // makespan - busy
  double device = 0;  // longest interval of a worker - busy
};

Bubbles BubblesOf(const Timeline& timeline) {
  double longest_interval = 0;
  double busy = 0;
  for (const std::vector<TimedAction>& row : timeline.workers) {
    longest_interval = std::max(longest_interval, row.back().end - row.front().start);
    for (const TimedAction& timed : row) busy += timed.end - timed.start;
  }
  const double busy_of_worker = busy / static_cast<double>(timeline.workers.size());
  return {timeline.makespan - busy_of_worker, longest_interval - busy_of_worker};
}

std::vector<StageCost> SomeCosts() {
  std::vector<StageCost> costs = {{18522, 18086, 9337}, {7, 1, 1}, {1, 7, 1}, {1, 1, 7}};
  for (int i = 0; i < 64; ++i) costs.push_back({1.0 + i / 16, 1.0 + i / 4 % 4, 1.0 + i % 4});
  return costs;
}

Timeline Time(const std::string& schedule, ScheduleProblem problem, const StageCost& cost) {
  problem.cost_of_stage.assign(size_t{problem.num_workers} * problem.num_chunks, cost);
  const absl::StatusOr<v1::ComputeTable> table = (*FindSchedule(schedule))->Build(problem);
  EXPECT_TRUE(table.ok()) << table.status();
  absl::StatusOr<Timeline> timeline = Simulate(*table, problem);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return *timeline;
}

// Expects the bubbles of `formula` for P in 2..8 and M from its least value to 4P.
void ExpectBubbles(const std::string& schedule, uint32_t num_chunks, const std::vector<StageCost>& costs,
                   const std::function<uint32_t(uint32_t p)>& least_micro_batches,
                   const std::function<Bubbles(double p, const StageCost& cost)>& formula) {
  for (uint32_t p = 2; p <= 8; ++p) {
    for (uint32_t m = least_micro_batches(p); m <= 4 * p; ++m) {
      const ScheduleProblem problem = {.num_workers = p, .num_chunks = num_chunks, .num_micro_batches = m};
      for (const StageCost& cost : costs) {
        const Bubbles bubbles = BubblesOf(Time(schedule, problem, cost));
        const Bubbles expected = formula(p, cost);
        ASSERT_TRUE(bubbles.span == expected.span && bubbles.device == expected.device)
            << schedule << " P=" << p << " M=" << m << " V=" << num_chunks << " F=" << cost.forward
            << " I=" << cost.backward_input << " W=" << cost.backward_weight << ": span bubble " << bubbles.span
            << " for " << expected.span << ", device bubble " << bubbles.device << " for " << expected.device;
      }
    }
  }
}

uint32_t One(uint32_t) { return 1; }
uint32_t AllWorkers(uint32_t p) { return p; }

Bubbles WholePassOfTheOthers(double p, const StageCost& cost) {
  const double bubble = (p - 1) * (cost.forward + cost.backward_input + cost.backward_weight);
  return {bubble, bubble};
}

TEST(ScheduleFormulasTest, GpipeAndOneForwardOneBackward) {
  ExpectBubbles("gpipe", 1, SomeCosts(), One, WholePassOfTheOthers);
  ExpectBubbles("1f1b", 1, SomeCosts(), One, WholePassOfTheOthers);
}

// Of one stage: that is 1 / V of the bubble of 1F1B. Also where P does not divide M.
TEST(ScheduleFormulasTest, Interleaved) {
  for (const uint32_t v : {1u, 2u, 3u, 4u}) {
    ExpectBubbles("interleaved", v, {{1, 1, 1}, {2, 3, 1}, {1, 1, 5}, {18522, 18086, 9337}}, AllWorkers,
                  WholePassOfTheOthers);
  }
}

// The paper's (P-1)(F+I-W) is the case W <= min(F, I). Otherwise the first worker, which runs P forwards and then waits
// for I to come back, and the last, which starts (P-1)F late, set the bubble.
TEST(ScheduleFormulasTest, ZbH1) {
  ExpectBubbles("zb_h1", 1, SomeCosts(), AllWorkers, [](double p, const StageCost& cost) {
    const auto& [f, i, w, r] = cost;
    return Bubbles{.span = (p - 1) * std::max({f, i, f + i - w}), .device = (p - 1) * (i + std::max(0.0, f - w))};
  });
}

// The paper's (P-1)(F+I-2W), if that is positive, is the device bubble for W <= F.
TEST(ScheduleFormulasTest, ZbH2) {
  const auto twice_the_warmup = [](uint32_t p) { return 2 * p - 1; };
  ExpectBubbles("zb_h2", 1, SomeCosts(), twice_the_warmup, [](double p, const StageCost& cost) {
    const auto& [f, i, w, r] = cost;
    return Bubbles{.span = (p - 1) * std::max({f, i - f, f + i - 2 * w}),
                   .device = (p - 1) * std::max({0.0, i - f, f + i - 2 * w})};
  });
}

TEST(ScheduleFormulasTest, ZbVWithEqualCosts) {
  const auto twice_the_workers = [](uint32_t p) { return 2 * p - 1; };
  ExpectBubbles("zb_v", 2, {{1, 1, 1}, {7, 7, 7}}, twice_the_workers,
                [](double p, const StageCost& cost) { return Bubbles{.span = (p - 1) * cost.forward, .device = 0}; });
}

// Its order is that of equal costs. (Two workers have no bubble for some others either, like 1, 1 and 2.)
TEST(ScheduleFormulasTest, ZbVHasABubbleWithOtherCosts) {
  for (uint32_t p = 3; p <= 8; ++p) {
    const ScheduleProblem problem = {.num_workers = p, .num_chunks = 2, .num_micro_batches = 2 * p};
    for (const StageCost& cost : SomeCosts()) {
      if (cost.forward == cost.backward_input && cost.forward == cost.backward_weight) continue;
      EXPECT_GT(BubblesOf(Time("zb_v", problem, cost)).device, 0);
    }
  }
}

TEST(ScheduleFormulasTest, DualPipeV) {
  const auto twice_the_workers = [](uint32_t p) { return 2 * p; };
  std::vector<StageCost> costs;
  std::vector<StageCost> other_costs;
  for (const StageCost& cost : SomeCosts()) {
    const auto& [f, i, w, r] = cost;
    (w <= i && i <= f && f <= i + w ? costs : other_costs).push_back(cost);
  }
  const auto formula = [](double p, const StageCost& cost) {
    return (p - 1) * (cost.forward + cost.backward_input - cost.backward_weight);
  };
  ExpectBubbles("dualpipe_v", 2, costs, twice_the_workers, [&](double p, const StageCost& cost) {
    return Bubbles{.span = formula(p, cost), .device = formula(p, cost)};
  });
  for (uint32_t p = 2; p <= 8; ++p) {
    const ScheduleProblem problem = {.num_workers = p, .num_chunks = 2, .num_micro_batches = 2 * p + 1};
    for (const StageCost& cost : other_costs) {
      EXPECT_GE(BubblesOf(Time("dualpipe_v", problem, cost)).span, formula(p, cost));
    }
  }
}

// Half the bubble of 1F1B, 3 (P-1) here, less two passes.
TEST(ScheduleFormulasTest, VHalfWithEqualCosts) {
  ExpectBubbles("v_half", 2, {{1, 1, 1}, {7, 7, 7}}, AllWorkers, [](double p, const StageCost& cost) {
    const double bubble = p == 2 ? 2 * cost.forward : (3 * p - 5) * cost.forward;
    return Bubbles{.span = bubble, .device = bubble};
  });
}

// One micro-batch goes down and comes back, whatever the schedule; a W that is split off runs while it does, except the
// last and, with zb_v and dualpipe_v, that of the stage after the bottom of the V. (v_half puts W's where there are
// gaps for W <= I.)
TEST(ScheduleFormulasTest, OneMicroBatchHasNothingToOverlap) {
  struct Case {
    const char* schedule;
    uint32_t num_chunks;
    std::function<double(uint32_t num_stages)> num_weights;  // W's in the span
  };
  const auto all = [](uint32_t num_stages) { return num_stages; };
  const auto one = [](uint32_t) { return 1; };
  const auto two = [](uint32_t) { return 2; };
  const auto one_of_several = [](uint32_t num_stages) { return num_stages == 2 ? 2 : 1; };
  const std::vector<Case> cases = {{"gpipe", 1, all},       {"1f1b", 1, all},       {"interleaved", 2, all},
                                   {"interleaved", 3, all}, {"zb_h1", 1, one},      {"zb_h2", 1, one},
                                   {"zb_v", 2, two},        {"dualpipe_v", 2, two}, {"v_half", 2, one_of_several}};
  for (const Case& c : cases) {
    for (uint32_t p = 1; p <= 8; ++p) {
      const ScheduleProblem problem = {.num_workers = p, .num_chunks = c.num_chunks, .num_micro_batches = 1};
      const uint32_t num_stages = p * c.num_chunks;
      for (const StageCost& cost : SomeCosts()) {
        if (c.schedule == std::string("v_half") && cost.backward_weight > cost.backward_input) continue;
        EXPECT_EQ(Time(c.schedule, problem, cost).makespan,
                  num_stages * (cost.forward + cost.backward_input) + c.num_weights(num_stages) * cost.backward_weight)
            << c.schedule << " P=" << p;
      }
    }
  }
}

}  // namespace
}  // namespace stagecoach
