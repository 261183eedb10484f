// The bitwise law over skip connections: wherever they lead, losses, validation losses and the state at the end have
// the bits of one stage on one worker, whatever the schedule, the stages, what they recompute and what is frozen. Data
// passes end in short and empty micro-batches on the way.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/spec/model_graph.h"
#include "tests/integration/embedded_job.h"
#include "tests/integration/pipelines.h"

namespace stagecoach {
namespace {

constexpr uint32_t kNumBlocks = 8;
constexpr uint32_t kMicroBatches = 5;

// Layers are 0, the embedding, 1 to 8, the blocks, 9, the norm, and 10, the head.
struct Connections {
  const char* name;
  std::vector<std::pair<uint32_t, uint32_t>> skips;
  std::vector<uint32_t> frozen = {};
};

class BitwiseSkipTest : public testing::TestWithParam<Connections> {
 protected:
  BitwiseSkipTest() {
    constexpr uint64_t kNumSamples = 91;  // of the text
    v1::TrainingSpec& training = *job_.spec().mutable_training();
    training.set_global_batch_size(kMicroBatches * training.micro_batch_size());
    training.set_steps(kNumSamples / training.global_batch_size() + 2);
    job_.AddValidation(training.steps() / 2);
    v1::ModelSpec& model = *job_.spec().mutable_model();
    v1::ModelConfig& config = *model.mutable_config();
    config.set_num_hidden_layers(kNumBlocks);
    config.set_tie_word_embeddings(GetParam().frozen.empty());
    config.set_embd_pdrop(0.1);
    config.set_attn_pdrop(0.1);
    config.set_resid_pdrop(0.1);
    const std::vector<std::string> names = LayerNames(config);
    for (const uint32_t layer : GetParam().frozen) model.add_frozen_layers(names[layer]);
    for (const auto& [from, to] : GetParam().skips) {
      v1::SkipConnectionSpec& skip = *model.add_skip_connections();
      skip.set_from(names[from]);
      skip.set_to(names[to]);
    }
  }

  EmbeddedJob::Result Run(const Pipeline& pipeline) {
    job_.spec().mutable_parallelism()->set_schedule(pipeline.schedule);
    job_.spec().mutable_parallelism()->set_virtual_stages(pipeline.chunks);
    job_.spec().mutable_parallelism()->set_activation_checkpointing(pipeline.recomputation);
    const EmbeddedJob::Result result = job_.Run(pipeline.workers);
    EXPECT_EQ(result.job.status().state(), v1::JOB_STATE_SUCCEEDED) << result.job.status().message();
    return result;
  }

  EmbeddedJob job_;
};

TEST_P(BitwiseSkipTest, NoPipelineChangesABit) {
  const EmbeddedJob::Result reference = Run({"gpipe", 1, 1});
  ASSERT_EQ(reference.steps.size(), job_.spec().training().steps());
  ASSERT_GE(reference.validation_losses().size(), 2u);
  for (const Pipeline& pipeline : PipelinesToTry()) {
    SCOPED_TRACE(absl::StrCat(pipeline.schedule, " on ", pipeline.workers, " workers of ", pipeline.chunks,
                              " stages, recomputation ", pipeline.recomputation));
    const EmbeddedJob::Result result = Run(pipeline);
    EXPECT_EQ(result.job.plan().stages_size(), static_cast<int>(pipeline.workers * pipeline.chunks));
    EXPECT_EQ(result.losses(), reference.losses());
    EXPECT_EQ(result.validation_losses(), reference.validation_losses());
    EXPECT_EQ(result.job.digest(), reference.job.digest());
    EXPECT_EQ(result.job.state_digest(), reference.job.state_digest());
  }
}

// The same training without them is another one.
TEST_P(BitwiseSkipTest, TheyMatter) {
  const EmbeddedJob::Result with = Run({"1f1b", 2, 1});
  job_.spec().mutable_model()->clear_skip_connections();
  const EmbeddedJob::Result without = Run({"1f1b", 2, 1});
  EXPECT_NE(with.job.digest(), without.job.digest());
  EXPECT_NE(with.losses(), without.losses());
}

INSTANTIATE_TEST_SUITE_P(Sets, BitwiseSkipTest,
                         testing::Values(Connections{"Nested", {{1, 8}, {2, 7}, {3, 6}}},
                                         Connections{"OverlappingChain", {{1, 3}, {2, 4}, {3, 5}, {4, 6}}},
                                         Connections{"FromTheEmbeddingToTheHead", {{0, 10}}},
                                         Connections{"ToTheNorm", {{4, 9}}},
                                         Connections{"OverOneBlock", {{2, 4}, {4, 6}, {6, 8}}},
                                         Connections{"FrozenPrefix", {{1, 8}, {3, 6}, {4, 9}}, {0, 1, 2, 3}},
                                         Connections{"FrozenBetween", {{1, 8}, {2, 5}}, {3, 4, 5, 6}}),
                         [](const auto& set) { return set.param.name; });

}  // namespace
}  // namespace stagecoach
