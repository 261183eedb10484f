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
    const auto& [f, i, w] = cost;
    return Bubbles{.span = (p - 1) * std::max({f, i, f + i - w}), .device = (p - 1) * (i + std::max(0.0, f - w))};
  });
}

// The paper's (P-1)(F+I-2W), if that is positive, is the device bubble for W <= F.
TEST(ScheduleFormulasTest, ZbH2) {
  const auto twice_the_warmup = [](uint32_t p) { return 2 * p - 1; };
  ExpectBubbles("zb_h2", 1, SomeCosts(), twice_the_warmup, [](double p, const StageCost& cost) {
    const auto& [f, i, w] = cost;
    return Bubbles{.span = (p - 1) * std::max({f, i - f, f + i - 2 * w}),
                   .device = (p - 1) * std::max({0.0, i - f, f + i - 2 * w})};
  });
}

// One micro-batch goes down and comes back, whatever the schedule; a W that is split off runs while it does.
TEST(ScheduleFormulasTest, OneMicroBatchHasNothingToOverlap) {
  for (const std::string schedule : {"gpipe", "1f1b", "interleaved"}) {
    for (uint32_t p = 1; p <= 8; ++p) {
      const uint32_t v = (*FindSchedule(schedule))->default_chunks();
      const ScheduleProblem problem = {.num_workers = p, .num_chunks = v, .num_micro_batches = 1};
      for (const StageCost& cost : SomeCosts()) {
        EXPECT_EQ(Time(schedule, problem, cost).makespan,
                  p * v * (cost.forward + cost.backward_input + cost.backward_weight));
      }
    }
  }
  for (const std::string schedule : {"zb_h1", "zb_h2"}) {
    for (uint32_t p = 1; p <= 8; ++p) {
      for (const StageCost& cost : SomeCosts()) {
        EXPECT_EQ(Time(schedule, {.num_workers = p, .num_micro_batches = 1}, cost).makespan,
                  p * (cost.forward + cost.backward_input) + cost.backward_weight);
      }
    }
  }
}

}  // namespace
}  // namespace stagecoach
