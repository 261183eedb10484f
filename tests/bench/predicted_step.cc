// Do steps take as long as the simulator says? A coordinator's process and p workers' processes, whose stages take
// modelled time and compute nothing: the control plane, the executors and the transport are the real ones.
//
//   predicted_step [--workers 2,4,8,16] [--micro-batches 32] [--schedules 1f1b,gpipe] [--steps 5]
//                  [--block-milliseconds 20 | F,I,W] [--transport ucx] [--no-one-worker]
//
// For each number of workers p and each schedule (without --schedules: all that jobs can run), trains a GPT-2 of one
// transformer block per stage. The first two steps are not counted; figures are medians of the others. Prints
//
//   hop           of a step of one micro-batch through p stages that take no time, the part of one hop: what is left
//                 when the step of one worker alone is taken off, by 2 (p - 1)
//   predicted     the simulator's step, with hops that take no time, and with the measured ones
//   span          of the program, at the worker where it took longest; step: from the order to the verdict, which
//                 bubble_ratio is of; verdict to verdict: with the update. Each with its ratio to the prediction
//                 without hops
//   excess        span less that prediction, divided by the F, I and W on the critical path
//   speed-up      verdict to verdict of one worker that has all stages / that of p workers, and its share of what the
//                 schedule's formulas allow, where a backward is one piece and hops take no time; a gradient that
//                 leaves before the W makes shares above 100% possible. With --no-one-worker, of the prediction for one
//                 worker
//
// and whether the bars are met: span within 3% of the prediction, 0.5 ms of excess, 97% of the ideal speed-up.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/simulated_device.h"
#include "coordinator/schedule/schedule.h"
#include "coordinator/spec/job_spec_parser.h"
#include "tests/bench/measured_job.h"
#include "tests/bench/schedule_prediction.h"
#include "tests/bench/simulated_cluster.h"

namespace stagecoach {
namespace {

constexpr uint64_t kWarmUpSteps = 2;
constexpr double kMostRatio = 1.03;
constexpr double kMostExcess = 0.5e-3;
constexpr double kLeastShare = 0.97;
// Of the text that samples are taken from: what does not matter, but there must be enough.
constexpr char kText[] = "/usr/share/common-licenses/*";

struct Arguments {
  std::vector<uint32_t> workers = {2, 4, 8, 16};
  uint32_t micro_batches = 32;
  std::vector<std::string> schedules;
  uint64_t steps = 5;
  std::vector<double> block_milliseconds = {20};
  std::string transport = "ucx";
  bool one_worker = true;
};

SimulatedCosts CostsOf(const std::vector<double>& milliseconds) {
  const auto seconds = [&](size_t i) { return 1e-3 * milliseconds[milliseconds.size() == 3 ? i : 0]; };
  return {.forward = seconds(0), .backward_input = seconds(1), .backward_weight = seconds(2)};
}

struct Run {
  std::string schedule = "1f1b";
  uint32_t workers = 1;
  uint32_t chunks = 1;
  uint32_t stages = 1;  // of the whole model
  uint32_t micro_batches = 1;
  uint64_t steps = 1;
};

std::string SpecText(const Run& run) {
  return absl::StrCat(
      "version: 1\nname: predicted-step\nmodel: {architecture: gpt2, config: {num_hidden_layers: ", run.stages,
      ", hidden_size: 8, num_attention_heads: 1, vocab_size: 256, max_position_embeddings: 8}}\n",
      "data: {train: [{path: \"", kText, "\"}], tokenizer: byte}\n",
      "training: {seq_len: 8, global_batch_size: ", run.micro_batches, ", micro_batch_size: 1, steps: ", run.steps,
      "}\noptimizer: {name: adamw, lr: 1.0e-4}\n", "parallelism: {pipeline_parallel_degree: ", run.workers,
      ", virtual_stages: ", run.chunks, ", schedule: ", run.schedule, ", partition: even}\n",
      "resources: {device: simulated, workers: ", run.workers, ", threads_per_worker: 1}\n",
      "checkpoint: {dir: /nowhere}\n");  // the cluster has its own
}

// Under its name, with this order: `auto` is a choice in jobs.
bool JobsCanRun(const Schedule& schedule) {
  if (schedule.name() == "auto") return false;
  std::vector<SpecError> errors;
  const uint32_t chunks = schedule.default_chunks();
  const Run run{.schedule = std::string(schedule.name()), .workers = 2, .chunks = chunks, .stages = 2 * chunks};
  return !schedule.forward_only() && ParseJobSpec(SpecText(run), {}, errors).ok();
}

std::vector<const Schedule*> SchedulesOf(const Arguments& arguments) {
  std::vector<const Schedule*> schedules;
  for (const std::string& name : arguments.schedules) {
    const absl::StatusOr<const Schedule*> schedule = FindSchedule(name);
    Require(schedule.status());
    schedules.push_back(*schedule);
  }
  if (!arguments.schedules.empty()) return schedules;
  const auto all = AllSchedules();
  std::copy_if(all.begin(), all.end(), std::back_inserter(schedules), [](const Schedule* s) { return JobsCanRun(*s); });
  return schedules;
}

std::string BlockSeconds(const SimulatedCosts& costs) {
  return absl::StrCat(costs.forward, ",", costs.backward_input, ",", costs.backward_weight);
}

// Medians over the steps after the first two.
MeasuredStep Measure(SimulatedCluster& cluster, Run run) {
  const auto counted = static_cast<uint32_t>(run.steps);
  run.steps += kWarmUpSteps;
  const std::vector<MeasuredStep> steps = cluster.Train(RequireSpec(SpecText(run), {}), counted);
  const auto median = [&](double MeasuredStep::*field) {
    std::vector<double> values;
    for (const MeasuredStep& step : steps) values.push_back(step.*field);
    return Median(std::move(values));
  };
  return {.span = median(&MeasuredStep::span),
          .verdict = median(&MeasuredStep::verdict),
          .interval = median(&MeasuredStep::interval)};
}

double HopSeconds(const Arguments& arguments, uint32_t workers) {
  if (workers == 1) return 0;
  const auto span = [&](uint32_t p) {
    SimulatedCluster cluster({.num_workers = p, .block_seconds = "0,0,0", .transport = arguments.transport});
    return Measure(cluster, {.workers = p, .stages = p, .steps = 20}).span;
  };
  return std::max(0.0, span(workers) - span(1)) / (2 * (workers - 1));
}

// Of one worker that has all of the pipeline's stages.
double OneWorkerSeconds(const Arguments& arguments, const SimulatedCosts& costs, uint32_t stages) {
  if (!arguments.one_worker) {
    return stages * arguments.micro_batches * (costs.forward + costs.backward_input + costs.backward_weight);
  }
  SimulatedCluster cluster({.num_workers = 1, .block_seconds = BlockSeconds(costs), .transport = arguments.transport});
  return Measure(cluster, {.stages = stages, .micro_batches = arguments.micro_batches, .steps = 1}).interval;
}

const char* Met(bool met) { return met ? "met" : "MISSED"; }

void Report(const Schedule& schedule, const PipelineShape& shape, const MeasuredStep& step, double one_worker) {
  const absl::StatusOr<SchedulePrediction> with_hops = PredictSchedule(schedule, shape);
  PipelineShape without = shape;
  without.hop_seconds = 0;
  const absl::StatusOr<SchedulePrediction> predicted = PredictSchedule(schedule, without);
  Require(with_hops.status());
  Require(predicted.status());
  const double ratio = step.span / predicted->seconds;
  const double excess = (step.span - predicted->seconds) / predicted->num_path_actions;
  const double speed_up = one_worker / step.interval;
  const double share = speed_up / predicted->ideal_speed_up;
  std::printf("%s, %u workers, %u micro-batches:\n", std::string(schedule.name()).c_str(), shape.num_workers,
              shape.num_micro_batches);
  std::printf("  predicted  %.4f s, with hops %.4f s\n", predicted->seconds, with_hops->seconds);
  std::printf(
      "  span       %.4f s, x%.4f (x%.4f of that with hops); step %.4f s, x%.4f; verdict to verdict %.4f s, x%.4f\n",
      step.span, ratio, step.span / with_hops->seconds, step.verdict, step.verdict / predicted->seconds, step.interval,
      step.interval / predicted->seconds);
  std::printf("  excess     %.3f ms on each of %u actions\n", 1e3 * excess, predicted->num_path_actions);
  std::printf("  speed-up   %.3f of %.3f: %.1f%%\n", speed_up, predicted->ideal_speed_up, 100 * share);
  std::printf("  bars       prediction within 3%%: %s; excess: %s; speed-up: %s\n",
              Met(std::abs(ratio - 1) <= kMostRatio - 1), Met(excess <= kMostExcess), Met(share >= kLeastShare));
  std::fflush(stdout);
}

void Compare(const Arguments& arguments) {
  const SimulatedCosts costs = CostsOf(arguments.block_milliseconds);
  for (const uint32_t workers : arguments.workers) {
    const double hop = HopSeconds(arguments, workers);
    std::printf("%u workers: a hop takes %.0f us\n", workers, 1e6 * hop);
    SimulatedCluster cluster(
        {.num_workers = workers, .block_seconds = BlockSeconds(costs), .transport = arguments.transport});
    for (const Schedule* schedule : SchedulesOf(arguments)) {
      const uint32_t chunks = schedule->default_chunks();
      const MeasuredStep step = Measure(cluster, {.schedule = std::string(schedule->name()),
                                                  .workers = workers,
                                                  .chunks = chunks,
                                                  .stages = workers * chunks,
                                                  .micro_batches = arguments.micro_batches,
                                                  .steps = arguments.steps});
      Report(*schedule,
             {.num_workers = workers,
              .num_chunks = chunks,
              .num_micro_batches = arguments.micro_batches,
              .costs = costs,
              .hop_seconds = hop},
             step, OneWorkerSeconds(arguments, costs, workers * chunks));
    }
  }
}

int Main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Whether steps take as long as the simulator says");
  app.add_option("--workers", arguments.workers, "how many, one after another")
      ->delimiter(',')
      ->check(CLI::Range(1, 256));
  app.add_option("--micro-batches", arguments.micro_batches, "of a step")->check(CLI::Range(1, 4096));
  app.add_option("--schedules", arguments.schedules, "default: all that jobs can run")->delimiter(',');
  app.add_option("--steps", arguments.steps, "to count")->check(CLI::Range(1, 100000));
  app.add_option("--block-milliseconds", arguments.block_milliseconds, "of F, I and W, or one value for all")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 1000.0));
  app.add_option("--transport", arguments.transport, "ucx, ucx-shm or ucx-cma");
  app.add_flag("!--no-one-worker", arguments.one_worker, "do not measure one worker");
  CLI11_PARSE(app, argc, argv);
  if (arguments.block_milliseconds.size() != 1 && arguments.block_milliseconds.size() != 3) {
    std::fprintf(stderr, "--block-milliseconds: %zu values; expected one, or F,I,W\n",
                 arguments.block_milliseconds.size());
    return 2;
  }
  StartLog("predicted_step");
  Compare(arguments);
  return 0;
}

}  // namespace
}  // namespace stagecoach

int main(int argc, char** argv) { return stagecoach::Main(argc, argv); }
