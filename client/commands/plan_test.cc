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
  static Result RunPlan(const std::string& recomputation, std::vector<std::string> more = {},
                        const std::string& example = "tiny") {
    std::vector<std::string> words = {"plan",      STAGECOACH_SOURCE_DIR "/examples/" + example + ".yaml",
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

TEST_F(PlanTest, SaysWhichStagesSkipConnectionsJoin) {
  const Result even = RunPlan("none", {}, "tiny-unet");
  EXPECT_EQ(even.code, 0) << even.err;
  EXPECT_THAT(even.out,
              HasSubstr("\nstage 0 to stage 1: 7 skip connections, 0.88 MiB a micro-batch, and 7 gradients back\n"));
  const Result frozen = RunPlan("none",
                                {"--set", "model.frozen_layers=[transformer.wte, transformer.h.0-5]", "--set",
                                 "model.config.tie_word_embeddings=false", "--set", "parallelism.partition=[10, 6]"},
                                "tiny-unet");
  EXPECT_THAT(frozen.out, HasSubstr("\nstage 0 to stage 1: 6 skip connections, 0.75 MiB a micro-batch\n"));
  const Result v_shape = RunPlan("none", {"--set", "parallelism.schedule=zb_v"}, "tiny-unet");
  EXPECT_THAT(v_shape.out, HasSubstr("\nstage 0 to stage 3: 4 skip connections, 0.50 MiB a micro-batch, and 4 "
                                     "gradients back, within worker 0\n"));
  EXPECT_THAT(RunPlan("none").out, Not(HasSubstr("skip connection")));
}

}  // namespace
}  // namespace stagecoach
