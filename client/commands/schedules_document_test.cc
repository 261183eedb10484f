// The figures and pictures of docs/schedules.md are those of the code: between a line `<!-- generated: NAME -->` and
// the next `<!-- end -->` stands what the function of that name makes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/commands/timeline_text.h"
#include "coordinator/program/simulator.h"
#include "coordinator/schedule/recomputing_table.h"
#include "coordinator/schedule/schedule.h"

namespace stagecoach {
namespace {

constexpr char kPath[] = STAGECOACH_SOURCE_DIR "/docs/schedules.md";

Timeline Time(const Schedule& schedule, uint32_t p, uint32_t m, bool recomputes = false) {
  ScheduleProblem problem{.num_workers = p, .num_chunks = schedule.default_chunks(), .num_micro_batches = m};
  const double share = 1.0 / problem.num_chunks;
  problem.cost_of_stage.assign(size_t{p} * problem.num_chunks, {share, share, share, share});
  const std::vector<bool> stages(problem.cost_of_stage.size(), recomputes);
  return *Simulate(*BuildRecomputing(schedule, problem, stages), problem);
}

double Most(const std::vector<double>& values) { return *std::max_element(values.begin(), values.end()); }

// F = I = W = 1 on a full stage, no communication.
std::string FigureTable(uint32_t p, uint32_t m) {
  std::string text =
      "| schedule | V | step | span bubble | device bubble | activations | pending W "
      "|\n|---|---|---|---|---|---|---|\n";
  for (const Schedule* schedule : AllSchedules()) {
    if (schedule->name() == "auto") continue;  // searches for seconds
    const Timeline timeline = Time(*schedule, p, m);
    absl::StrAppend(&text, "| `", schedule->name(), "` | ", schedule->default_chunks(),
                    absl::StrFormat(" | %g | %.1f%% | %.1f%% | %g | %g |\n", timeline.makespan,
                                    100 * timeline.bubble_ratio_span, 100 * timeline.bubble_ratio_device,
                                    Most(timeline.peak_activations), Most(timeline.peak_pending_weight)));
  }
  return text;
}

// The same with R = 1 on every stage.
std::string RecomputingTable(uint32_t p, uint32_t m) {
  std::string text = "| schedule | step | with R | activations | with R |\n|---|---|---|---|---|\n";
  for (const Schedule* schedule : AllSchedules()) {
    if (schedule->name() == "auto" || schedule->forward_only()) continue;
    const Timeline without = Time(*schedule, p, m);
    const Timeline with = Time(*schedule, p, m, true);
    absl::StrAppendFormat(&text, "| `%s` | %g | %g | %g | %g |\n", schedule->name(), without.makespan, with.makespan,
                          Most(without.peak_activations), Most(with.peak_activations));
  }
  return text;
}

std::string Picture(const Schedule& schedule, uint32_t p, uint32_t m, bool recomputes = false) {
  return absl::StrCat("```\n", *SlotText(Time(schedule, p, m, recomputes), 400), "```\n");
}

// What each block of the document holds.
std::map<std::string, std::string> Blocks() {
  std::map<std::string, std::string> blocks;
  blocks["figures 4 8"] = FigureTable(4, 8);
  blocks["figures 8 32"] = FigureTable(8, 32);
  blocks["recomputation 8 32"] = RecomputingTable(8, 32);
  blocks["picture of recomputation"] = Picture(**FindSchedule("1f1b"), 3, 5, true);
  for (const Schedule* schedule : AllSchedules()) {
    if (schedule->name() == "auto") continue;  // searches for seconds
    blocks[absl::StrCat("picture ", schedule->name())] = Picture(*schedule, 3, 5);
  }
  return blocks;
}

TEST(SchedulesDocumentTest, FiguresAndPicturesAreThoseOfTheCode) {
  std::ifstream file(kPath);
  ASSERT_TRUE(file) << kPath;
  std::map<std::string, std::string> left = Blocks();
  std::string before, after, line;
  while (std::getline(file, line)) {
    before += line + "\n";
    after += line + "\n";
    if (!line.starts_with("<!-- generated: ")) continue;
    const std::string name = line.substr(16, line.find(" -->") - 16);
    ASSERT_TRUE(left.contains(name)) << "nothing makes the block " << name;
    after += left[name];
    left.erase(name);
    while (std::getline(file, line) && line != "<!-- end -->") before += line + "\n";
    before += line + "\n";
    after += line + "\n";
  }
  for (const auto& [name, text] : left) ADD_FAILURE() << "docs/schedules.md has no block " << name;
  if (std::getenv("STAGECOACH_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(kPath) << after;
    return;
  }
  EXPECT_EQ(before, after) << "STAGECOACH_UPDATE_GOLDEN=1 writes the new blocks";
}

}  // namespace
}  // namespace stagecoach
