// How long does it take to compile a pipeline: the table of a schedule, its lowering, its proof? Prints a line for each
// schedule.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/clock.h"
#include "coordinator/program/lowering.h"
#include "coordinator/program/testing/small_pipeline.h"
#include "coordinator/program/verifier.h"
#include "coordinator/schedule/schedule.h"

namespace stagecoach {
namespace {

double Seconds(absl::Duration since) { return absl::ToDoubleSeconds(Clock::Real().Now() - since); }

int Measure(const Schedule& schedule, uint32_t num_workers, uint32_t num_micro_batches) {
  const uint32_t num_chunks = schedule.default_chunks();
  testing::SmallPipeline pipeline = testing::MakeSmallPipeline(
      std::string(schedule.name()),
      {.num_stages = num_workers * num_chunks, .num_chunks = num_chunks, .num_micro_batches = num_micro_batches});
  const absl::Duration start = Clock::Real().Now();
  const absl::StatusOr<v1::ComputeTable> table =
      schedule.Build({.num_workers = num_workers, .num_chunks = num_chunks, .num_micro_batches = num_micro_batches});
  const double built = Seconds(start);
  pipeline.programs = *Lower(*table, pipeline.graph, pipeline.plan, {});
  const double lowered = Seconds(start);
  const absl::Status verified = pipeline.Verified();
  const double all = Seconds(start);
  size_t num_instructions = 0;
  for (const v1::StageProgram& program : pipeline.programs) {
    num_instructions += static_cast<size_t>(program.instructions_size());
  }
  std::cout << absl::StrFormat(
      "%-13s %3d stages %8d instructions: table %.2f s, lowering %.2f s, proof %.2f s, all %.2f s\n",
      std::string(schedule.name()), num_workers * num_chunks, num_instructions, built, lowered - built, all - lowered,
      all);
  if (!verified.ok()) std::cerr << verified << "\n";
  return verified.ok() ? 0 : 1;
}

}  // namespace
}  // namespace stagecoach

int main(int argc, char** argv) {
  CLI::App app("How long it takes to compile, lower and prove a pipeline.");
  uint32_t workers = 64, micro_batches = 512;
  app.add_option("--workers", workers)->check(CLI::Range(1, 4096));
  app.add_option("--micro-batches", micro_batches)->check(CLI::Range(1, 65536));
  CLI11_PARSE(app, argc, argv);
  int failures = 0;
  for (const stagecoach::Schedule* schedule : stagecoach::AllSchedules()) {
    failures += stagecoach::Measure(*schedule, workers, micro_batches);
  }
  return failures == 0 ? 0 : 1;
}
