#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "client/commands/testing/command_line_test.h"
#include "client/output/json.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;
using testing::Not;

class PlanTest : public CommandLineTest {
 protected:
  static Result RunPlan(const std::string& recomputation, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"plan",      STAGECOACH_SOURCE_DIR "/examples/tiny.yaml",
                                      "--workers", "2",
                                      "--set",     "parallelism.schedule=1f1b",
                                      "--set",     "parallelism.partition=even",
                                      "--set",     "parallelism.activation_checkpointing=" + recomputation};
    words.insert(words.end(), more.begin(), more.end());
    return Run(words);
  }
};

TEST_F(PlanTest, SaysWhichLayersAStageRecomputes) {
  const Result full = RunPlan("full");
  EXPECT_EQ(full.code, 0) << full.err;
  EXPECT_THAT(full.out, HasSubstr("\nstage 0 recomputes layers 1 to 8: R "));
  EXPECT_THAT(full.out, HasSubstr("\nstage 1 recomputes layers 9 to 16: R "));
  EXPECT_THAT(RunPlan("none").out, Not(HasSubstr("recomputes")));
  const Json plan = Json::parse(RunPlan("full", {"-o", "json"}).out);
  EXPECT_EQ(plan["stages"][0]["recomputed_layers"], Json::parse("[1, 2, 3, 4, 5, 6, 7, 8]"));
  EXPECT_GT(plan["stages"][0]["recompute_seconds"].get<double>(), 0);
  EXPECT_EQ(RunPlan("gradients").code, 2);
}

}  // namespace
}  // namespace stagecoach
