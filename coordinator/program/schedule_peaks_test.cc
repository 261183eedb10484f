// Closed forms of what workers hold at most, in micro-batches on one stage (1 / V of a full stage).

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "coordinator/program/simulator.h"
#include "coordinator/schedule/schedule.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

struct Peaks {
  double until_input_gradient = 0;   // F ended, I not
  double until_weight_gradient = 0;  // F ended, W not: what memory holds
  double pending_weight = 0;         // I ended, W not
};

uint32_t PeakUntilInputGradient(const v1::WorkerActions& row) {
  uint32_t held = 0;
  uint32_t peak = 0;
  for (const v1::Action& action : row.actions()) {
    if (action.kind() == v1::ACTION_KIND_FORWARD) peak = std::max(peak, ++held);
    if (action.kind() == v1::ACTION_KIND_BACKWARD || action.kind() == v1::ACTION_KIND_BACKWARD_INPUT) --held;
  }
  return peak;
}

// Expects the peaks of `formula` on every worker for P in 1..8 and M from its least value to 4P.
void ExpectPeaks(const std::string& schedule, uint32_t num_chunks,
                 const std::function<uint32_t(uint32_t p)>& least_micro_batches,
                 const std::function<Peaks(uint32_t p, uint32_t m, uint32_t worker)>& formula) {
  for (uint32_t p = 1; p <= 8; ++p) {
    for (uint32_t m = least_micro_batches(p); m <= 4 * p; ++m) {
      const ScheduleProblem problem = {.num_workers = p, .num_chunks = num_chunks, .num_micro_batches = m};
      const absl::StatusOr<v1::ComputeTable> table = (*FindSchedule(schedule))->Build(problem);
      ASSERT_TRUE(table.ok()) << table.status();
      const absl::StatusOr<Timeline> timeline = Simulate(*table, problem);
      ASSERT_TRUE(timeline.ok()) << timeline.status();
      for (uint32_t worker = 0; worker < p; ++worker) {
        const Peaks peaks = formula(p, m, worker);
        const std::string where = schedule + " P=" + std::to_string(p) + " M=" + std::to_string(m) +
                                  " V=" + std::to_string(num_chunks) + " worker " + std::to_string(worker);
        EXPECT_EQ(PeakUntilInputGradient(table->workers(static_cast<int>(worker))), peaks.until_input_gradient)
            << where;
        EXPECT_DOUBLE_EQ(timeline->peak_activations[worker] * num_chunks, peaks.until_weight_gradient) << where;
        EXPECT_DOUBLE_EQ(timeline->peak_pending_weight[worker] * num_chunks, peaks.pending_weight) << where;
      }
    }
  }
}

uint32_t One(uint32_t) { return 1; }

Peaks OfWholeBackwards(uint32_t peak) {
  return {.until_input_gradient = 1.0 * peak, .until_weight_gradient = 1.0 * peak, .pending_weight = 1};
}

TEST(SchedulePeaksTest, Gpipe) {
  ExpectPeaks("gpipe", 1, One, [](uint32_t, uint32_t m, uint32_t) { return OfWholeBackwards(m); });
}

TEST(SchedulePeaksTest, OneForwardOneBackward) {
  ExpectPeaks("1f1b", 1, One,
              [](uint32_t p, uint32_t m, uint32_t worker) { return OfWholeBackwards(std::min(m, p - worker)); });
}

TEST(SchedulePeaksTest, Interleaved) {
  for (const uint32_t v : {2u, 3u, 4u}) {
    ExpectPeaks("interleaved", v, One, [v](uint32_t p, uint32_t m, uint32_t worker) {
      const uint32_t num_groups = std::max(1u, m / p);
      const uint32_t largest_group = (m + num_groups - 1) / num_groups;
      EXPECT_LE(largest_group, 2 * p - 1);
      return OfWholeBackwards(std::min(m * v, 2 * (p - 1 - worker) + (v - 1) * largest_group + 1));
    });
  }
}

TEST(SchedulePeaksTest, ZbH1) {
  const auto all_workers = [](uint32_t p) { return p; };
  ExpectPeaks("zb_h1", 1, all_workers, [](double p, uint32_t, double worker) {
    return Peaks{.until_input_gradient = p - worker, .until_weight_gradient = p, .pending_weight = worker + 1};
  });
}

TEST(SchedulePeaksTest, ZbH2) {
  const auto twice_the_warmup = [](uint32_t p) { return 2 * p - 1; };
  ExpectPeaks("zb_h2", 1, twice_the_warmup, [](double p, uint32_t, double worker) {
    return Peaks{.until_input_gradient = 2 * (p - worker) - 1,
                 .until_weight_gradient = 2 * p - 1,
                 .pending_weight = 2 * worker + 1};
  });
}

TEST(SchedulePeaksTest, ZbV) {
  const auto twice_the_workers = [](uint32_t p) { return 2 * p; };
  ExpectPeaks("zb_v", 2, twice_the_workers, [](double p, uint32_t, double worker) {
    return Peaks{.until_input_gradient = 2 * p, .until_weight_gradient = 2 * p, .pending_weight = 2 * worker + 1};
  });
}

TEST(SchedulePeaksTest, DualPipeV) {
  const auto twice_the_workers = [](uint32_t p) { return 2 * p; };
  ExpectPeaks("dualpipe_v", 2, twice_the_workers, [](double p, uint32_t, double worker) {
    return Peaks{.until_input_gradient = 2 * p + 1, .until_weight_gradient = 2 * p + 1, .pending_weight = worker + 1};
  });
}

// P+2 of the 2M passes on every worker, and no more with fewer micro-batches; up to three W's wait, whatever P.
TEST(SchedulePeaksTest, VHalf) {
  for (uint32_t p = 1; p <= 12; ++p) {
    for (uint32_t m = 1; m <= 4 * p; ++m) {
      const ScheduleProblem problem = {.num_workers = p, .num_chunks = 2, .num_micro_batches = m};
      const absl::StatusOr<Timeline> timeline = Simulate(*(*FindSchedule("v_half"))->Build(problem), problem);
      ASSERT_TRUE(timeline.ok()) << timeline.status();
      for (uint32_t worker = 0; worker < p; ++worker) {
        EXPECT_LE(timeline->peak_activations[worker] * 2, p + 2);
        if (m > p) {
          EXPECT_EQ(timeline->peak_activations[worker] * 2, p + 2) << "P=" << p << " M=" << m;
        }
        EXPECT_LE(timeline->peak_pending_weight[worker] * 2, 3);
      }
    }
  }
}

}  // namespace
}  // namespace stagecoach
