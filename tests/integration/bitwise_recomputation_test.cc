// The bitwise law over recomputation: losses, validation losses and the state at the end have the bits of a run that
// keeps all activations, whichever blocks are recomputed. Data passes end in short and empty micro-batches on the way.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/embedded_job.h"

namespace stagecoach {
namespace {

constexpr uint32_t kNumBlocks = 8;
constexpr uint32_t kMicroBatches = 8;

struct Pipeline {
  const char* schedule;
  uint32_t workers;
  uint32_t chunks;
  // The partitioner reckons with the peaks of a worker's stages together. Where they come far apart, it finds no choice
  // of blocks for less memory than the job needs without.
  bool peaks_come_apart = false;
};

uint64_t MostBytes(const v1::Plan& plan) {
  std::vector<uint64_t> needed(static_cast<size_t>(plan.stages_size()));
  for (const v1::StagePlan& stage : plan.stages()) needed[stage.worker_rank()] += stage.memory_bytes().total();
  return *std::max_element(needed.begin(), needed.end());
}

uint32_t NumRecomputed(const v1::Plan& plan) {
  int num_recomputed = 0;
  for (const v1::StagePlan& stage : plan.stages()) num_recomputed += stage.recomputed_layers_size();
  return static_cast<uint32_t>(num_recomputed);
}

class BitwiseRecomputationTest : public testing::TestWithParam<Pipeline> {
 protected:
  BitwiseRecomputationTest() {
    constexpr uint64_t kNumSamples = 91;  // of the text
    v1::TrainingSpec& training = *job_.spec().mutable_training();
    training.set_global_batch_size(kMicroBatches * training.micro_batch_size());
    training.set_steps(kNumSamples / training.global_batch_size() + 2);
    job_.AddValidation(training.steps() / 2);
    v1::ModelConfig& config = *job_.spec().mutable_model()->mutable_config();
    config.set_num_hidden_layers(kNumBlocks);
    config.set_tie_word_embeddings(true);
    config.set_embd_pdrop(0.1);
    config.set_attn_pdrop(0.1);
    config.set_resid_pdrop(0.1);
    job_.spec().mutable_parallelism()->mutable_partition()->set_kind(v1::PartitionSpec::KIND_EVEN);
    // Receives are placed by the plan's times: with measured ones no two plans need the same memory.
    job_.spec().mutable_parallelism()->set_costs("analytic");
  }

  EmbeddedJob::Result Run(const Pipeline& pipeline, const std::string& recomputation) {
    job_.spec().mutable_parallelism()->set_schedule(pipeline.schedule);
    job_.spec().mutable_parallelism()->set_virtual_stages(pipeline.chunks);
    job_.spec().mutable_parallelism()->set_activation_checkpointing(recomputation);
    return job_.Run(pipeline.workers);
  }

  static bool HasSucceeded(const EmbeddedJob::Result& result) {
    EXPECT_EQ(result.job.status().state(), v1::JOB_STATE_SUCCEEDED) << result.job.status().message();
    return result.job.status().state() == v1::JOB_STATE_SUCCEEDED;
  }

  static void ExpectEqual(const EmbeddedJob::Result& result, const EmbeddedJob::Result& reference) {
    EXPECT_EQ(result.losses(), reference.losses());
    EXPECT_EQ(result.validation_losses(), reference.validation_losses());
    EXPECT_EQ(result.job.digest(), reference.job.digest());
    EXPECT_EQ(result.job.state_digest(), reference.job.state_digest());
  }

  EmbeddedJob job_;
};

TEST_P(BitwiseRecomputationTest, NoChoiceOfLayersChangesABit) {
  const EmbeddedJob::Result reference = Run({"gpipe", 1, 1}, "none");
  ASSERT_TRUE(HasSucceeded(reference));
  ASSERT_EQ(reference.steps.size(), job_.spec().training().steps());
  ASSERT_GE(reference.validation_losses().size(), 2u);

  const EmbeddedJob::Result none = Run(GetParam(), "none");
  const EmbeddedJob::Result full = Run(GetParam(), "full");
  ASSERT_TRUE(HasSucceeded(none) && HasSucceeded(full));
  EXPECT_EQ(NumRecomputed(none.job.plan()), 0u);
  EXPECT_EQ(NumRecomputed(full.job.plan()), kNumBlocks);
  ExpectEqual(none, reference);
  ExpectEqual(full, reference);
  // As much memory as makes some blocks necessary, and not all. The partitioner reckons with more transfers than
  // lowering then needs, so that what all blocks need would not do.
  if (GetParam().peaks_come_apart) return;
  const uint64_t most = MostBytes(none.job.plan());
  const uint64_t least = MostBytes(full.job.plan());
  ASSERT_LT(least, most);
  for (const uint64_t memory_bytes : {most - 1, least + (most - least) * 3 / 4}) {
    job_.worker_memory_bytes = memory_bytes;
    const EmbeddedJob::Result selective = Run(GetParam(), "selective");
    SCOPED_TRACE(absl::StrCat(job_.worker_memory_bytes, " bytes, ", NumRecomputed(selective.job.plan()), " blocks"));
    ASSERT_TRUE(HasSucceeded(selective));
    EXPECT_LE(MostBytes(selective.job.plan()), job_.worker_memory_bytes);
    EXPECT_GT(NumRecomputed(selective.job.plan()), 0u);
    EXPECT_LT(NumRecomputed(selective.job.plan()), kNumBlocks);
    ExpectEqual(selective, reference);
  }
}

INSTANTIATE_TEST_SUITE_P(Pipelines, BitwiseRecomputationTest,
                         testing::Values(Pipeline{"gpipe", 1, 1}, Pipeline{"gpipe", 2, 1}, Pipeline{"gpipe", 3, 1},
                                         Pipeline{"1f1b", 2, 1}, Pipeline{"1f1b", 3, 1}, Pipeline{"1f1b", 4, 1},
                                         Pipeline{"interleaved", 2, 2}, Pipeline{"zb_h1", 3, 1},
                                         Pipeline{"zb_v", 2, 2, true}, Pipeline{"v_half", 3, 2},
                                         Pipeline{"dualpipe_v", 2, 2}),
                         [](const auto& pipeline) {
                           return absl::StrCat(pipeline.param.schedule, "On", pipeline.param.workers, "Of",
                                               pipeline.param.chunks);
                         });

}  // namespace
}  // namespace stagecoach
