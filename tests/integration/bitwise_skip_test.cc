// The bitwise law over skip connections: wherever they lead, losses, validation losses and the state at the end have
// the bits of one stage on one worker, whatever the schedule, the stages, what they recompute and what is frozen. Data
// passes end in short and empty micro-batches on the way.

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/spec/model_graph.h"
#include "tests/integration/embedded_job.h"

namespace stagecoach {
namespace {

constexpr uint32_t kNumBlocks = 8;
constexpr uint32_t kMicroBatches = 5;
// Of the pipelines one in so many: a sanitizer looks for other mistakes than wrong bits, and all of them take minutes.
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kStride = 3;
#else
constexpr size_t kStride = 1;
#endif

struct Pipeline {
  const char* schedule;
  uint32_t workers;
  uint32_t chunks;
  const char* recomputation = "none";
};

const std::vector<Pipeline> kPipelines = {
    {"1f1b", 1, 1, "full"},  {"gpipe", 2, 1}, {"gpipe", 4, 1, "full"}, {"1f1b", 2, 1},
    {"1f1b", 3, 1},          {"1f1b", 4, 1},  {"1f1b", 4, 1, "full"},  {"zb_h1", 3, 1},
    {"zb_h1", 4, 1, "full"}, {"zb_h2", 3, 1}, {"interleaved", 2, 2},   {"interleaved", 3, 2, "full"},
    {"interleaved", 2, 4},   {"zb_v", 2, 2},  {"zb_v", 4, 2, "full"},  {"v_half", 3, 2, "full"},
    {"dualpipe_v", 2, 2},
};

// Layers are 0, the embedding, 1 to 8, the blocks, 9, the norm, and 10, the head.
struct Connections {
  const char* name;
  std::vector<std::pair<uint32_t, uint32_t>> skips;
  std::vector<uint32_t> frozen = {};
};

std::vector<double> ValidationLosses(const EmbeddedJob::Result& result) {
  std::vector<double> losses;
  for (const v1::StepEvent& step : result.steps) {
    if (step.has_validation_loss()) losses.push_back(step.validation_loss());
  }
  return losses;
}

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
  ASSERT_GE(ValidationLosses(reference).size(), 2u);
  for (size_t i = 0; i < kPipelines.size(); i += kStride) {
    const Pipeline& pipeline = kPipelines[i];
    SCOPED_TRACE(absl::StrCat(pipeline.schedule, " on ", pipeline.workers, " workers of ", pipeline.chunks,
                              " stages, recomputation ", pipeline.recomputation));
    const EmbeddedJob::Result result = Run(pipeline);
    EXPECT_EQ(result.job.plan().stages_size(), static_cast<int>(pipeline.workers * pipeline.chunks));
    EXPECT_EQ(result.losses(), reference.losses());
    EXPECT_EQ(ValidationLosses(result), ValidationLosses(reference));
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
