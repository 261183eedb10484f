// Runs seeds of the deterministic simulation, or one of them with all its events.
#include <CLI/CLI.hpp>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "tests/simulation/planted_bug.h"
#include "tests/simulation/simulation.h"

namespace stagecoach::simulation {
namespace {

struct Arguments {
  uint64_t first_seed = 0;
  uint64_t last_seed = 999;
  PlantedBug bug = PlantedBug::kNone;
  bool trace = false;
  bool keep_going = false;
  bool coverage = false;
};

void PrintViolation(uint64_t seed, const SimulationOutcome& outcome) {
  std::printf("seed %" PRIu64 ": %s\nthe last events:\n", seed, outcome.violation->c_str());
  for (const std::string& line : outcome.last_events) std::printf("%s\n", line.c_str());
}

int RunSeeds(const Arguments& arguments) {
  SimulationOutcome sum;
  uint64_t num_violations = 0;
  for (uint64_t seed = arguments.first_seed; seed <= arguments.last_seed; ++seed) {
    const SimulationOutcome outcome = Simulate({.seed = seed, .bug = arguments.bug, .print = arguments.trace});
    sum.num_events += outcome.num_events;
    sum.virtual_seconds += outcome.virtual_seconds;
    sum.num_succeeded += outcome.num_succeeded;
    sum.num_failed += outcome.num_failed;
    sum.num_cancelled += outcome.num_cancelled;
    sum.num_steps += outcome.num_steps;
    sum.num_recoveries += outcome.num_recoveries;
    for (const auto& [what, times] : outcome.coverage) sum.coverage[what] += times;
    sum.trace_hash = sum.trace_hash * 31 + outcome.trace_hash;
    if (!outcome.violation.has_value()) continue;
    ++num_violations;
    if (arguments.keep_going) {
      std::printf("seed %" PRIu64 ": %s\n", seed, outcome.violation->c_str());
      continue;
    }
    PrintViolation(seed, outcome);
    break;
  }
  if (arguments.coverage) {
    for (const auto& [what, times] : sum.coverage) std::printf("%8" PRIu64 "  %s\n", times, what.c_str());
  }
  std::printf("seeds %" PRIu64 " to %" PRIu64 ": %" PRIu64 " violations; %" PRIu64
              " events in %.0f virtual seconds; jobs: %" PRIu64 " succeeded, %" PRIu64 " failed, %" PRIu64
              " cancelled; %" PRIu64 " steps, %" PRIu64 " recoveries; trace %016" PRIx64 "\n",
              arguments.first_seed, arguments.last_seed, num_violations, sum.num_events, sum.virtual_seconds,
              sum.num_succeeded, sum.num_failed, sum.num_cancelled, sum.num_steps, sum.num_recoveries, sum.trace_hash);
  return num_violations == 0 ? 0 : 1;
}

bool ParseSeeds(const std::string& text, Arguments& arguments) {
  const std::pair<std::string, std::string> ends = absl::StrSplit(text, absl::MaxSplits("..", 1));
  return absl::SimpleAtoi(ends.first, &arguments.first_seed) && absl::SimpleAtoi(ends.second, &arguments.last_seed) &&
         arguments.first_seed <= arguments.last_seed;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  std::string seeds = "0..999";
  std::string bug = "none";
  uint64_t seed = 0;
  CLI::App app("Deterministic simulation of coordinator and workers");
  app.add_option("--seeds", seeds, "FROM..TO, both included");
  CLI::Option* const one = app.add_option("--seed", seed, "One seed");
  app.add_flag("--trace", arguments.trace, "Print every event");
  app.add_flag("--keep-going", arguments.keep_going, "One line for each seed that breaks a law");
  app.add_flag("--coverage", arguments.coverage, "Print how often what happened");
  app.add_option("--bug", bug, "Plant a bug, to see that it is found");
  CLI11_PARSE(app, argc, argv);
  if (!ParseSeeds(seeds, arguments)) {
    std::fprintf(stderr, "--seeds %s is not FROM..TO\n", seeds.c_str());
    return 2;
  }
  if (one->count() > 0) arguments.first_seed = arguments.last_seed = seed;
  bool known = false;
  for (const auto& [planted, name] : kPlantedBugs) {
    if (name != bug) continue;
    arguments.bug = planted;
    known = true;
  }
  if (!known) {
    std::fprintf(stderr, "--bug %s is not known; it is one of:", bug.c_str());
    for (const auto& [planted, name] : kPlantedBugs)
      std::fprintf(stderr, " %.*s", static_cast<int>(name.size()), name.data());
    std::fprintf(stderr, "\n");
    return 2;
  }
  ReportOnAbort();
  return RunSeeds(arguments);
}

}  // namespace
}  // namespace stagecoach::simulation

int main(int argc, char** argv) { return stagecoach::simulation::Main(argc, argv); }
