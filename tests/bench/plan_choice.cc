// How long does it take to plan a job with every schedule that `auto` compares, what does the order gain that it then
// searches for the job's own times, and how long does that search take?
//
//   plan_choice [--effort 1]
//
// Prints the candidates of some jobs, best first, and what the plan gains on the best that has a name. Then, as a
// measure of what the bounded search leaves, for the best one with one stage on each worker and the best one with two:
// the step of an order that is searched with the effort given (coordinator/schedule/auto_schedule.h), in either
// placement, for the same cut, which may hold no more micro-batches on any worker than the candidate does, over the
// step of that best; and how long that took.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "common/check.h"
#include "coordinator/plan/job_cut.h"
#include "coordinator/plan/planner.h"
#include "coordinator/schedule/auto_schedule.h"
#include "coordinator/spec/job_spec_parser.h"

namespace stagecoach {
namespace {

// Of this process on the processor: the machine may be busy, and planning has one thread.
double Seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct Job {
  const char* example;
  size_t num_workers;
  std::vector<SpecOverride> settings;
};
const Job kJobs[] = {
    {"tiny.yaml", 2, {}},
    {"tiny.yaml", 4, {}},
    {"gpt2-124m.yaml", 4, {}},
    {"tiny.yaml", 8, {{"model.config.num_hidden_layers", "32"}, {"training.global_batch_size", "64"}}},
    {"gpt2-124m.yaml",
     8,
     {{"model.config.num_hidden_layers", "24"},
      {"training.global_batch_size", "64"},
      {"training.micro_batch_size", "2"}}},
    {"tiny.yaml", 32, {{"model.config.num_hidden_layers", "96"}, {"training.global_batch_size", "256"}}},
    {"tiny.yaml", 64, {{"model.config.num_hidden_layers", "96"}, {"training.global_batch_size", "256"}}},
    {"tiny.yaml", 64, {{"model.config.num_hidden_layers", "256"}, {"training.global_batch_size", "256"}}},
};

v1::JobSpec SpecOf(const Job& job) {
  std::ifstream file(std::string(STAGECOACH_SOURCE_DIR "/examples/") + job.example);
  std::stringstream text;
  text << file.rdbuf();
  std::vector<SpecError> errors;
  absl::StatusOr<v1::JobSpec> spec = ParseJobSpec(text.str(), job.settings, errors);
  STAGECOACH_CHECK(spec.ok());
  return *std::move(spec);
}

void PrintCandidates(const v1::Plan& plan) {
  for (const v1::PlanCandidate& candidate : plan.candidates()) {
    std::printf("  %-12s %u  step %.4f s, bubble %4.1f%%, %8.1f MiB  %s\n", candidate.schedule().c_str(),
                candidate.virtual_stages(), candidate.step_seconds(), 100 * candidate.bubble_ratio(),
                static_cast<double>(candidate.memory_bytes()) / (1 << 20), candidate.why_not().c_str());
  }
}

// The best candidate with so many stages on each worker.
const v1::PlanCandidate* BestWith(const v1::Plan& plan, uint32_t num_chunks) {
  const auto best = std::find_if(plan.candidates().begin(), plan.candidates().end(), [&](const auto& candidate) {
    return candidate.why_not().empty() && candidate.virtual_stages() == num_chunks;
  });
  return best == plan.candidates().end() ? nullptr : &*best;
}

void PrintSearch(const v1::JobSpec& spec, const std::vector<WorkerProfile>& workers, const v1::Plan& plan,
                 uint32_t num_chunks, const AutoOptions& options) {
  const v1::PlanCandidate* candidate = BestWith(plan, num_chunks);
  if (candidate == nullptr) return;
  v1::JobSpec named = spec;
  named.mutable_parallelism()->set_schedule(candidate->schedule());
  named.mutable_parallelism()->set_virtual_stages(num_chunks);
  const absl::StatusOr<JobCut> cut = CutJob(named, workers, {});
  STAGECOACH_CHECK(cut.ok());
  for (const bool is_limited : {true, false}) {
    ScheduleProblem problem = cut->choice.cut.schedule_problem;
    if (is_limited) problem.memory_limit = cut->choice.cut.timeline.peak_activations;
    const double start = Seconds();
    const absl::StatusOr<AutoResult> result = SearchSchedule(problem, options);
    const double elapsed = Seconds() - start;
    STAGECOACH_CHECK(result.ok());
    const double step = result->seconds + cut->choice.cut.update_seconds;
    std::printf("  searched, %u stages, memory %s: step %.4f s, %+.2f%% of the plan's, bound %+.2f%%; %.2f s\n",
                num_chunks, is_limited ? ("of " + candidate->schedule()).c_str() : "unlimited", step,
                100 * (step / plan.step_seconds() - 1),
                100 * ((result->lower_bound_seconds + cut->choice.cut.update_seconds) / plan.step_seconds() - 1),
                elapsed);
    std::fflush(stdout);
  }
}

int Main(int argc, char** argv) {
  CLI::App app("How long a job takes to plan, and what a searched order would gain");
  AutoOptions options;
  bool plan_only = false;
  app.add_option("--effort", options.effort, "share of the usual work of a search");
  app.add_flag("--plan-only", plan_only, "search nothing but what plans search");
  CLI11_PARSE(app, argc, argv);
  for (const Job& job : kJobs) {
    const v1::JobSpec spec = SpecOf(job);
    const std::vector<WorkerProfile> workers(job.num_workers);
    double start = Seconds();
    STAGECOACH_CHECK(CutJob(spec, workers, {}).ok());
    const double cut = Seconds() - start;
    start = Seconds();
    const absl::StatusOr<PlannedJob> named = PlanJobWith(spec, workers, {.searches_order = false});
    STAGECOACH_CHECK(named.ok());
    const double without = Seconds() - start;
    start = Seconds();
    const absl::StatusOr<PlannedJob> planned = PlanJob(spec, workers);
    STAGECOACH_CHECK(planned.ok());
    std::printf(
        "%s, %zu workers, %u blocks, %u micro-batches: planned in %.3f s, %.3f s of them candidates, %.3f s a "
        "searched order: step %+.2f%% of that of %s, journal %+.1f kB\n",
        job.example, job.num_workers, static_cast<unsigned>(spec.model().config().num_hidden_layers()),
        planned->plan.num_micro_batches(), Seconds() - start, cut, Seconds() - start - without,
        100 * (planned->plan.step_seconds() / named->plan.step_seconds() - 1), named->plan.schedule().c_str(),
        planned->order.has_value() ? static_cast<double>(planned->order->ByteSizeLong()) / 1000 : 0.0);
    PrintCandidates(planned->plan);
    for (const uint32_t num_chunks : {1u, 2u}) {
      if (!plan_only) PrintSearch(spec, workers, named->plan, num_chunks, options);
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace stagecoach

int main(int argc, char** argv) { return stagecoach::Main(argc, argv); }
