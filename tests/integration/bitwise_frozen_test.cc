// The bitwise law over frozen layers: whichever layers are frozen, losses, validation losses and the state at the end
// have the bits of one stage on one worker, whatever the schedule, the stages and what they recompute. Frozen tensors
// keep their values, and have no optimizer state. Data passes end in short and empty micro-batches on the way.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/file_system.h"
#include "coordinator/spec/model_graph.h"
#include "formats/checkpoint.h"
#include "tests/integration/embedded_job.h"
#include "tests/integration/pipelines.h"

namespace stagecoach {
namespace {

constexpr uint32_t kNumBlocks = 8;
constexpr uint32_t kMicroBatches = 5;

// Layers are 0, the embedding, 1 to 8, the blocks, 9, the norm, and 10, the head.
struct FrozenSet {
  const char* name;
  bool tied;
  std::vector<uint32_t> layers;
};

class BitwiseFrozenTest : public testing::TestWithParam<FrozenSet> {
 protected:
  BitwiseFrozenTest() {
    constexpr uint64_t kNumSamples = 91;  // of the text
    v1::TrainingSpec& training = *job_.spec().mutable_training();
    training.set_global_batch_size(kMicroBatches * training.micro_batch_size());
    training.set_steps(kNumSamples / training.global_batch_size() + 2);
    job_.AddValidation(training.steps() / 2);
    v1::ModelConfig& config = *job_.spec().mutable_model()->mutable_config();
    config.set_num_hidden_layers(kNumBlocks);
    config.set_tie_word_embeddings(GetParam().tied);
    config.set_embd_pdrop(0.1);
    config.set_attn_pdrop(0.1);
    config.set_resid_pdrop(0.1);
    names_ = LayerNames(config);
    for (const uint32_t layer : GetParam().layers) job_.spec().mutable_model()->add_frozen_layers(names_[layer]);
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
  std::vector<std::string> names_;
};

TEST_P(BitwiseFrozenTest, NoPipelineChangesABit) {
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

using Digests = std::map<std::string, std::string>;

Digests DigestsOf(const std::string& directory, const std::string& name) {
  const auto checkpoint = VerifyCheckpoint(FileSystem::Posix(), absl::StrCat(directory, "/", name));
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  Digests digests;
  if (!checkpoint.ok()) return digests;
  for (const v1::CheckpointTensor& tensor : checkpoint->manifest.tensors()) digests[tensor.name()] = tensor.digest();
  return digests;
}

TEST_P(BitwiseFrozenTest, FrozenTensorsKeepTheirValuesAndHaveNoOptimizerState) {
  job_.spec().mutable_training()->set_steps(3);
  job_.spec().mutable_checkpoint()->set_interval_steps(1);
  job_.spec().mutable_checkpoint()->set_async(false);
  const EmbeddedJob::Result result = Run({"1f1b", 3, 1});
  const std::string& directory = job_.spec().checkpoint().dir();
  const Digests first = DigestsOf(directory, "step-0000000001");
  const Digests last = DigestsOf(directory, "step-0000000003");
  const absl::StatusOr<v1::ModelGraph> graph = BuildModelGraph(job_.spec());
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (const v1::LayerSpec& layer : graph->layers()) {
    for (const v1::ParameterSpec& parameter : layer.parameters()) {
      const std::string& name = parameter.name();
      EXPECT_EQ(first.at(name) == last.at(name), layer.frozen()) << name;
      EXPECT_EQ(last.contains(name + ".exp_avg"), !layer.frozen()) << name;
      EXPECT_EQ(last.contains(name + ".exp_avg_sq"), !layer.frozen()) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sets, BitwiseFrozenTest,
    testing::Values(FrozenSet{"Prefix", false, {0, 1, 2, 3, 4}}, FrozenSet{"Middle", false, {3, 4, 5, 6}},
                    FrozenSet{"HeadAndNorm", false, {9, 10}}, FrozenSet{"Suffix", false, {6, 7, 8, 9, 10}},
                    FrozenSet{"Embedding", false, {0}},
                    FrozenSet{"AllButTheHead", false, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
                    FrozenSet{"AllButOneBlock", false, {0, 1, 2, 3, 5, 6, 7, 8, 9, 10}},
                    FrozenSet{"EveryOther", false, {0, 2, 4, 6, 8, 10}}, FrozenSet{"TiedBoth", true, {0, 10}},
                    FrozenSet{"TiedPrefix", true, {0, 1, 2, 3, 4, 10}}, FrozenSet{"TiedMiddle", true, {3, 4, 5, 6, 9}},
                    FrozenSet{"TiedAllBlocks", true, {1, 2, 3, 4, 5, 6, 7, 8, 9}}),
    [](const auto& set) { return set.param.name; });

// What only the job as a whole shows: a resumed run goes on with the same frozen layers, and with no others.
TEST(FrozenResumeTest, ARunGoesOnAtAnotherCutAndWithTheSameLayersAlone) {
  EmbeddedJob job;
  v1::JobSpec& spec = job.spec();
  spec.mutable_model()->add_frozen_layers("transformer.h.0");
  spec.mutable_model()->add_frozen_layers("transformer.h.2");
  spec.mutable_training()->set_steps(6);
  spec.mutable_checkpoint()->set_dir(job.directory() + "/whole");
  const EmbeddedJob::Result whole = job.Run(1);
  ASSERT_EQ(whole.job.status().state(), v1::JOB_STATE_SUCCEEDED) << whole.job.status().message();

  spec.mutable_checkpoint()->set_dir(job.directory() + "/parts");
  spec.mutable_training()->set_steps(4);
  ASSERT_EQ(job.Run(3).job.status().state(), v1::JOB_STATE_SUCCEEDED);
  spec.mutable_training()->set_steps(6);
  spec.mutable_checkpoint()->set_resume("auto");
  const EmbeddedJob::Result resumed = job.Run(2);
  ASSERT_EQ(resumed.job.status().state(), v1::JOB_STATE_SUCCEEDED) << resumed.job.status().message();
  EXPECT_EQ(resumed.steps.size(), 2u);
  EXPECT_EQ(resumed.job.digest(), whole.job.digest());
  EXPECT_EQ(resumed.job.state_digest(), whole.job.state_digest());

  spec.mutable_training()->set_steps(8);
  spec.mutable_model()->mutable_frozen_layers()->RemoveLast();
  const EmbeddedJob::Result changed = job.Run(2);
  EXPECT_EQ(changed.job.status().state(), v1::JOB_STATE_FAILED);
  EXPECT_NE(changed.job.status().message().find(
                "model.frozen_layers: [transformer.h.0, transformer.h.2] -> [transformer.h.0]"),
            std::string::npos)
      << changed.job.status().message();
}

}  // namespace
}  // namespace stagecoach
