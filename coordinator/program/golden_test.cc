// Tables and programs as text, compared with tests/golden/schedules (see the README there).

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/program/lowering.h"
#include "coordinator/program/testing/small_pipeline.h"
#include "coordinator/schedule/compute_csv.h"
#include "coordinator/schedule/schedule.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using testing::MakeSmallPipeline;
using testing::SmallPipeline;
using testing::SmallPipelineOptions;

void ExpectGolden(const std::string& name, const std::string& text) {
  const std::filesystem::path path = std::filesystem::path(STAGECOACH_SOURCE_DIR) / "tests/golden/schedules" / name;
  if (std::getenv("STAGECOACH_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  std::ifstream file(path, std::ios::binary);
  ASSERT_TRUE(file) << path << " is missing; STAGECOACH_UPDATE_GOLDEN=1 makes it";
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(text, golden.str()) << path << " differs; STAGECOACH_UPDATE_GOLDEN=1 writes the new text";
}

TEST(GoldenScheduleTest, ComputeTablesAreThoseOfTheFiles) {
  for (const Schedule* schedule : HandMadeSchedules()) {
    for (const auto& [p, m] : {std::pair(1u, 3u), std::pair(2u, 4u), std::pair(4u, 2u), std::pair(4u, 8u)}) {
      const absl::StatusOr<v1::ComputeTable> table =
          schedule->Build({.num_workers = p, .num_chunks = schedule->default_chunks(), .num_micro_batches = m});
      ASSERT_TRUE(table.ok()) << table.status();
      ExpectGolden(absl::StrCat(schedule->name(), "_p", p, "_m", m, ".csv"), ComputeCsv(*table));
    }
  }
}

TEST(GoldenScheduleTest, ProgramsAreThoseOfTheFiles) {
  const std::pair<const char*, SmallPipelineOptions> cases[] = {
      {"1f1b", {.num_stages = 1, .num_micro_batches = 2}},
      {"1f1b", {.num_stages = 3, .num_micro_batches = 4}},
      {"1f1b", {.num_stages = 2, .num_micro_batches = 3, .tied = false}},
      {"gpipe", {.num_stages = 2, .num_micro_batches = 3}},
      {"zb_h1", {.num_stages = 2, .num_micro_batches = 3, .tied = false, .recomputes = {true, false}}},
      {"forward_only", {.num_stages = 3, .num_micro_batches = 4}},
      {"1f1b", {.num_stages = 3, .num_micro_batches = 3, .tied = false, .skip_connections = {{0, 2}, {1, 4}}}},
  };
  for (const auto& [schedule, options] : cases) {
    const SmallPipeline pipeline = MakeSmallPipeline(schedule, options);
    std::string text;
    for (const v1::StageProgram& program : pipeline.programs) absl::StrAppend(&text, ProgramText(program), "\n");
    ExpectGolden(absl::StrCat(schedule, "_p", options.num_stages, "_m", options.num_micro_batches,
                              options.tied ? "_tied" : "_untied", options.recomputes.empty() ? "" : "_recomputing",
                              options.skip_connections.empty() ? "" : "_skips", ".txt"),
                 text);
  }
}

}  // namespace
}  // namespace stagecoach
