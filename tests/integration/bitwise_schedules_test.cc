// The bitwise law over schedules: losses, validation losses and the state at the end have the bits of one stage on one
// worker, whatever the schedule, the number of stages on a worker and where they are placed. Data passes end in short
// and empty micro-batches on the way.

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/schedule/compute_csv.h"
#include "tests/integration/embedded_job.h"

namespace stagecoach {
namespace {

constexpr uint32_t kNumBlocks = 8;

struct Pipeline {
  const char* schedule;
  uint32_t workers;
  uint32_t chunks;
};

const std::vector<Pipeline> kPipelines = {
    {"interleaved", 1, 1}, {"interleaved", 1, 4}, {"interleaved", 2, 2}, {"interleaved", 3, 2}, {"interleaved", 2, 4},
    {"zb_h1", 3, 1},       {"zb_h2", 3, 1},       {"zb_v", 1, 2},        {"zb_v", 2, 2},        {"zb_v", 4, 2},
    {"v_half", 3, 2},      {"dualpipe_v", 1, 2},  {"dualpipe_v", 3, 2},
};

// micro-batches, tied
using Case = std::tuple<uint32_t, bool>;

class BitwiseSchedulesTest : public testing::TestWithParam<Case> {};

void MakeJob(uint32_t num_micro_batches, bool tied, EmbeddedJob& job) {
  constexpr uint64_t kNumSamples = 91;  // of the text
  v1::TrainingSpec& training = *job.spec().mutable_training();
  training.set_global_batch_size(num_micro_batches * training.micro_batch_size());
  // More than a pass over the data, which no batch size here divides.
  training.set_steps(kNumSamples / training.global_batch_size() + 3);
  job.AddValidation(training.steps() / 2);
  v1::ModelConfig& config = *job.spec().mutable_model()->mutable_config();
  config.set_num_hidden_layers(kNumBlocks);
  config.set_tie_word_embeddings(tied);
  config.set_embd_pdrop(0.1);
  config.set_attn_pdrop(0.1);
  config.set_resid_pdrop(0.1);
}

TEST_P(BitwiseSchedulesTest, NoScheduleChangesABit) {
  const auto [num_micro_batches, tied] = GetParam();
  EmbeddedJob job;
  MakeJob(num_micro_batches, tied, job);
  job.spec().mutable_parallelism()->set_schedule("gpipe");
  const EmbeddedJob::Result reference = job.Run(1);
  ASSERT_EQ(reference.job.status().state(), v1::JOB_STATE_SUCCEEDED) << reference.job.status().message();
  ASSERT_EQ(reference.steps.size(), job.spec().training().steps());
  ASSERT_GE(reference.validation_losses().size(), 2u);
  for (const Pipeline& pipeline : kPipelines) {
    SCOPED_TRACE(absl::StrCat(pipeline.schedule, " on ", pipeline.workers, " workers of ", pipeline.chunks, " stages"));
    job.spec().mutable_parallelism()->set_schedule(pipeline.schedule);
    job.spec().mutable_parallelism()->set_virtual_stages(pipeline.chunks);
    const EmbeddedJob::Result result = job.Run(pipeline.workers);
    ASSERT_EQ(result.job.status().state(), v1::JOB_STATE_SUCCEEDED) << result.job.status().message();
    EXPECT_EQ(result.job.plan().schedule(), pipeline.schedule);
    EXPECT_EQ(result.job.plan().stages_size(), static_cast<int>(pipeline.workers * pipeline.chunks));
    EXPECT_EQ(result.losses(), reference.losses());
    EXPECT_EQ(result.validation_losses(), reference.validation_losses());
    EXPECT_EQ(result.job.digest(), reference.job.digest());
    EXPECT_EQ(result.job.state_digest(), reference.job.state_digest());
  }
}

// The order that is searched depends on costs, and no bit does.
TEST(BitwiseOrdersTest, NoSearchedOrderChangesABit) {
  for (const char* kept : {"none", "full"}) {
    EmbeddedJob job;
    MakeJob(/*num_micro_batches=*/8, /*tied=*/true, job);
    v1::ParallelismSpec& parallelism = *job.spec().mutable_parallelism();
    parallelism.set_schedule("1f1b");
    const EmbeddedJob::Result reference = job.Run(4);
    ASSERT_EQ(reference.job.status().state(), v1::JOB_STATE_SUCCEEDED) << reference.job.status().message();
    parallelism.set_schedule("auto");
    parallelism.set_costs("analytic");  // measured ones might order otherwise each time
    parallelism.set_activation_checkpointing(kept);
    for (const uint32_t chunks : {1u, 2u}) {
      SCOPED_TRACE(absl::StrCat(chunks, " stages on each worker, recomputation ", kept));
      parallelism.set_virtual_stages(chunks);
      const EmbeddedJob::Result result = job.Run(4);
      ASSERT_EQ(result.job.status().state(), v1::JOB_STATE_SUCCEEDED) << result.job.status().message();
      EXPECT_EQ(result.job.plan().schedule(), "auto");
      EXPECT_EQ(result.losses(), reference.losses());
      EXPECT_EQ(result.validation_losses(), reference.validation_losses());
      EXPECT_EQ(result.job.digest(), reference.job.digest());
      EXPECT_EQ(result.job.state_digest(), reference.job.state_digest());
    }
  }
}

// Orders as users write them: B beside I and W, other depths than any schedule has.
TEST(BitwiseOrdersTest, NoOrderOfTheUsersOwnChangesABit) {
  EmbeddedJob job;
  MakeJob(/*num_micro_batches=*/4, /*tied=*/true, job);
  v1::ParallelismSpec& parallelism = *job.spec().mutable_parallelism();
  parallelism.set_schedule("1f1b");
  const EmbeddedJob::Result reference = job.Run(2);
  ASSERT_EQ(reference.job.status().state(), v1::JOB_STATE_SUCCEEDED) << reference.job.status().message();
  for (const char* csv : {"0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3\n1F0,1B0,1F1,1I1,1F2,1I2,1W1,1W2,1F3,1B3\n",
                          "0F0,0F1,3F0,3B0,3F1,3B1,0B0,0F2,0F3,3F2,3I2,0B1,3F3,3I3,3W2,3W3,0I2,0I3,0W2,0W3\n"
                          "1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1,1F2,2F2,1F3,2F3,2I2,1I2,2I3,1I3,2W2,2W3,1W2,1W3\n"}) {
    SCOPED_TRACE(csv);
    const absl::StatusOr<v1::ComputeTable> order = ParseComputeCsv(csv, "csv");
    ASSERT_TRUE(order.ok()) << order.status();
    parallelism.set_schedule("csv");
    *parallelism.mutable_order() = *order;
    parallelism.set_pipeline_parallel_degree(2);
    parallelism.set_virtual_stages(order->num_stages() / 2);
    const EmbeddedJob::Result result = job.Run(2);
    ASSERT_EQ(result.job.status().state(), v1::JOB_STATE_SUCCEEDED) << result.job.status().message();
    EXPECT_EQ(result.job.plan().schedule(), "csv");
    EXPECT_EQ(result.job.plan().stages_size(), static_cast<int>(order->num_stages()));
    EXPECT_EQ(result.losses(), reference.losses());
    EXPECT_EQ(result.validation_losses(), reference.validation_losses());
    EXPECT_EQ(result.job.digest(), reference.job.digest());
    EXPECT_EQ(result.job.state_digest(), reference.job.state_digest());
  }
}

INSTANTIATE_TEST_SUITE_P(MicroBatches, BitwiseSchedulesTest,
                         testing::Combine(testing::Values(3, 5, 8), testing::Bool()), [](const auto& shape) {
                           return absl::StrCat("m", std::get<0>(shape.param),
                                               std::get<1>(shape.param) ? "Tied" : "Untied");
                         });

}  // namespace
}  // namespace stagecoach
