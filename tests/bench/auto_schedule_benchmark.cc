// What the schedule `auto` gains: the published rows of the Zero Bubble paper, random pipelines, and large ones.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <limits>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/check.h"
#include "coordinator/program/simulator.h"
#include "coordinator/schedule/auto_random.h"
#include "coordinator/schedule/auto_schedule.h"
#include "coordinator/schedule/schedule.h"

namespace stagecoach {
namespace {

// Of this process on the processor: the machine may be busy, and a search has one thread.
double Seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Table 9 of the paper, and what its own search reaches (Table 5, ZB-1p and ZB-2p).
struct PublishedRow {
  const char* model;
  uint32_t num_micro_batches;
  StageCost cost;
  double communication_seconds;
  double target_1p;
  double target_2p;
};
constexpr uint32_t kPublishedWorkers = 8;
const PublishedRow kPublishedRows[] = {
    {"1.5B", 24, {18.522, 18.086, 9.337}, 0.601, .1585, .0433},
    {"1.5B", 32, {18.513, 18.086, 9.331}, 0.626, .1242, .0039},
    {"1.5B", 64, {18.546, 18.097, 9.321}, 0.762, .0674, .0026},
    {"6.2B", 24, {29.718, 29.444, 19.927}, 0.527, .1323, .0029},
    {"6.2B", 32, {29.802, 29.428, 19.530}, 0.577, .1045, .0022},
    {"6.2B", 64, {29.935, 29.621, 19.388}, 0.535, .0554, .0010},
};

ScheduleProblem PublishedProblem(const PublishedRow& row, uint32_t num_chunks, double memory_limit) {
  ScheduleProblem problem = {.num_workers = kPublishedWorkers,
                             .num_chunks = num_chunks,
                             .num_micro_batches = row.num_micro_batches,
                             .communication_seconds = row.communication_seconds,
                             .memory_limit = std::vector<double>(kPublishedWorkers, memory_limit),
                             .objective = Objective::kDevice};
  const StageCost cost = {row.cost.forward / num_chunks, row.cost.backward_input / num_chunks,
                          row.cost.backward_weight / num_chunks};
  problem.cost_of_stage.assign(size_t{kPublishedWorkers} * num_chunks, cost);
  return problem;
}

void PrintOne(const PublishedRow& row, uint32_t num_chunks, double limit, const AutoOptions& options) {
  const ScheduleProblem problem = PublishedProblem(row, num_chunks, limit);
  const double busy = row.num_micro_batches * (row.cost.forward + row.cost.backward_input + row.cost.backward_weight);
  const double start = Seconds();
  const absl::StatusOr<AutoResult> result = SearchSchedule(problem, options);
  const double elapsed = Seconds() - start;
  STAGECOACH_CHECK(result.ok());
  const Timeline timeline = *Simulate(result->table, problem);
  const double peak = *std::max_element(timeline.peak_activations.begin(), timeline.peak_activations.end());
  std::printf("  V=%u limit %2.0f: %.4f, bound %.4f, peak %.1f; %s %.4f; %.1f s\n", num_chunks, limit,
              timeline.bubble_ratio_device, std::max(0.0, 1 - busy / result->lower_bound_seconds), peak,
              result->best_hand_made.c_str(), 1 - busy / result->best_hand_made_seconds, elapsed);
  std::fflush(stdout);
}

void PrintPublished(const AutoOptions& options) {
  std::printf("device bubble, P = %u: auto, bound, activations held; the best hand-made\n", kPublishedWorkers);
  for (const PublishedRow& row : kPublishedRows) {
    std::printf("%s M=%u, the paper's search: %.4f with memory for P, %.4f for 2P\n", row.model, row.num_micro_batches,
                row.target_1p, row.target_2p);
    for (const uint32_t num_chunks : {1u, 2u}) {
      for (const uint32_t limit : {kPublishedWorkers, 2 * kPublishedWorkers, row.num_micro_batches}) {
        PrintOne(row, num_chunks, limit, options);
      }
    }
  }
}

ScheduleProblem RandomProblem(AutoRandom& random, uint32_t num_chunks) {
  ScheduleProblem problem;
  problem.num_workers = 2 + random.Below(7);
  problem.num_chunks = num_chunks;
  problem.num_micro_batches = 1 + random.Below(4 * problem.num_workers);
  const auto factor = [&random] { return 0.5 + random.Unit(); };
  const StageCost kinds = {factor(), factor(), factor()};
  for (uint32_t stage = 0; stage < problem.num_workers * num_chunks; ++stage) {
    const double size = factor() / num_chunks;
    problem.cost_of_stage.push_back({size * kinds.forward, size * kinds.backward_input, size * kinds.backward_weight});
  }
  if (random.Coin()) problem.communication_seconds = 0.5 * random.Unit();
  const uint32_t limits = random.Below(3);  // none, one for all, one for each
  const uint32_t p = problem.num_workers;
  const uint32_t level = p + random.Below(p + 1);
  for (uint32_t worker = 0; worker < p && limits > 0; ++worker) {
    const uint32_t least = std::min(problem.num_micro_batches, p - worker);  // of 1F1B
    problem.memory_limit.push_back(limits == 1 ? level : least + random.Below(p + 1));
  }
  return problem;
}

// The shortest hand-made schedule that fits, timed by the simulator as it is; infinite: none fits.
double BestHandMade(const ScheduleProblem& problem) {
  double best = std::numeric_limits<double>::infinity();
  for (const Schedule* schedule : HandMadeSchedules()) {
    if (schedule->forward_only() || !schedule->AcceptsChunks(problem.num_chunks)) continue;
    const Timeline timeline = *Simulate(*schedule->Build(problem), problem);
    bool fits = true;
    for (size_t worker = 0; worker < problem.memory_limit.size(); ++worker) {
      fits &= timeline.peak_activations[worker] <= problem.memory_limit[worker] + 1e-9;
    }
    if (fits) best = std::min(best, timeline.makespan);
  }
  return best;
}

struct RandomSums {
  int num_compared = 0;
  int num_at_bound = 0;
  int num_worse = 0;
  int num_instances = 0;
  double ratio = 0;
  double gap = 0;
  double worst_gap = 0;
  double hand_made_gap = 0;
};

void AddInstance(const ScheduleProblem& problem, const AutoOptions& options, RandomSums& sums) {
  const absl::StatusOr<AutoResult> result = SearchSchedule(problem, options);
  STAGECOACH_CHECK(result.ok());
  const Timeline timeline = *Simulate(result->table, problem);
  for (size_t worker = 0; worker < problem.memory_limit.size(); ++worker) {
    STAGECOACH_CHECK(timeline.peak_activations[worker] <= problem.memory_limit[worker] + 1e-9);
  }
  const double gap = timeline.makespan / result->lower_bound_seconds - 1;
  STAGECOACH_CHECK(gap > -1e-9);
  ++sums.num_instances;
  sums.gap += gap;
  sums.worst_gap = std::max(sums.worst_gap, gap);
  if (gap < 1e-9) ++sums.num_at_bound;
  const double hand_made = BestHandMade(problem);
  if (hand_made == std::numeric_limits<double>::infinity()) return;
  ++sums.num_compared;
  sums.ratio += timeline.makespan / hand_made;
  sums.hand_made_gap += hand_made / result->lower_bound_seconds - 1;
  if (timeline.makespan > hand_made * (1 + 1e-12)) ++sums.num_worse;
}

void Print(const char* name, const RandomSums& sums) {
  std::printf(
      "%s: %d instances, %d at the bound, gap mean %.4f worst %.4f; %d with a hand-made schedule that fits: "
      "span ratio mean %.4f, %d worse, gap of the hand-made mean %.4f\n",
      name, sums.num_instances, sums.num_at_bound, sums.gap / sums.num_instances, sums.worst_gap, sums.num_compared,
      sums.ratio / sums.num_compared, sums.num_worse, sums.hand_made_gap / sums.num_compared);
}

void PrintRandom(int num_instances, const AutoOptions& options) {
  AutoRandom random(1);
  RandomSums sums[2];
  const double start = Seconds();
  for (int i = 0; i < num_instances; ++i) {
    const uint32_t num_chunks = 1 + random.Below(2);
    AddInstance(RandomProblem(random, num_chunks), options, sums[num_chunks - 1]);
  }
  Print("V=1", sums[0]);
  Print("V=2", sums[1]);
  const int num_compared = sums[0].num_compared + sums[1].num_compared;
  std::printf("all: span ratio mean %.4f, gap mean %.4f worst %.4f, %.0f s\n",
              (sums[0].ratio + sums[1].ratio) / num_compared, (sums[0].gap + sums[1].gap) / num_instances,
              std::max(sums[0].worst_gap, sums[1].worst_gap), Seconds() - start);
}

void PrintLarge(uint32_t num_workers, uint32_t num_micro_batches, const AutoOptions& options) {
  for (const uint32_t num_chunks : {1u, 2u}) {
    ScheduleProblem problem = {.num_workers = num_workers,
                               .num_chunks = num_chunks,
                               .num_micro_batches = num_micro_batches,
                               .communication_seconds = 0.05,
                               .memory_limit = std::vector<double>(num_workers, 1.5 * num_workers)};
    AutoRandom random(num_workers);
    for (uint32_t stage = 0; stage < num_workers * num_chunks; ++stage) {
      const double size = (0.9 + 0.2 * random.Unit()) / num_chunks;
      problem.cost_of_stage.push_back({size, size, 0.8 * size});
    }
    const double start = Seconds();
    const absl::StatusOr<AutoResult> result = SearchSchedule(problem, options);
    STAGECOACH_CHECK(result.ok());
    std::printf("P=%u M=%u V=%u: span %.2f, bound %.2f, gap %.4f, best hand-made %s %.2f, %.1f s\n", num_workers,
                num_micro_batches, num_chunks, result->seconds, result->lower_bound_seconds, result->gap_ratio(),
                result->best_hand_made.c_str(), result->best_hand_made_seconds, Seconds() - start);
    std::fflush(stdout);
  }
}

int Main(int argc, char** argv) {
  CLI::App app("What the schedule auto gains");
  AutoOptions options;
  int num_instances = 1000;
  std::string what = "all";
  app.add_option("--only", what, "published, random or large")
      ->check(CLI::IsMember({"all", "published", "random", "large"}));
  app.add_option("--instances", num_instances, "random pipelines");
  app.add_option("--effort", options.effort, "share of the usual work");
  app.add_option("--seed", options.seed, "of the search");
  CLI11_PARSE(app, argc, argv);
  if (what == "all" || what == "published") PrintPublished(options);
  if (what == "all" || what == "random") PrintRandom(num_instances, options);
  if (what == "all" || what == "large") {
    PrintLarge(32, 96, options);
    PrintLarge(64, 512, options);
  }
  return 0;
}

}  // namespace
}  // namespace stagecoach

int main(int argc, char** argv) { return stagecoach::Main(argc, argv); }
