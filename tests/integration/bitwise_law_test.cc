// The bitwise law: the loss of every step and the state after the last have the same bits whatever the number of stages
// and the schedule. Data passes end in short and empty micro-batches on the way.

#include <gtest/gtest.h>

#include <tuple>

#include "absl/strings/str_cat.h"
#include "tests/integration/embedded_job.h"

namespace stagecoach {
namespace {

constexpr uint32_t kMaxWorkers = 4;

// micro-batches, tied, dropout, threads per worker
using Case = std::tuple<uint32_t, bool, double, uint32_t>;

class BitwiseLawTest : public testing::TestWithParam<Case> {};

TEST_P(BitwiseLawTest, LossesAndDigestsDoNotDependOnTheCut) {
  const auto [num_micro_batches, tied, dropout, threads] = GetParam();
  EmbeddedJob job;
  v1::TrainingSpec& training = *job.spec().mutable_training();
  training.set_global_batch_size(num_micro_batches * training.micro_batch_size());
  v1::ModelConfig& config = *job.spec().mutable_model()->mutable_config();
  config.set_tie_word_embeddings(tied);
  config.set_embd_pdrop(dropout);
  config.set_attn_pdrop(dropout);
  config.set_resid_pdrop(dropout);
  job.spec().mutable_resources()->set_threads_per_worker(threads);

  job.spec().mutable_parallelism()->set_schedule("gpipe");
  const EmbeddedJob::Result reference = job.Run(1);
  ASSERT_EQ(reference.job.status().state(), v1::JOB_STATE_SUCCEEDED) << reference.job.status().message();
  ASSERT_EQ(reference.steps.size(), 20u);
  EXPECT_LT(reference.steps.back().loss(), reference.steps.front().loss());
  for (const char* schedule : {"gpipe", "1f1b"}) {
    job.spec().mutable_parallelism()->set_schedule(schedule);
    for (uint32_t workers = 1; workers <= kMaxWorkers; ++workers) {
      SCOPED_TRACE(absl::StrCat(schedule, " on ", workers, " workers"));
      const EmbeddedJob::Result result = job.Run(workers);
      EXPECT_EQ(result.job.plan().stages_size(), static_cast<int>(workers));
      EXPECT_EQ(result.losses(), reference.losses());
      EXPECT_EQ(result.job.digest(), reference.job.digest());
      EXPECT_EQ(result.job.state_digest(), reference.job.state_digest());
    }
  }
}

std::string NameOf(const testing::TestParamInfo<Case>& info) {
  return absl::StrCat("m", std::get<0>(info.param), std::get<1>(info.param) ? "Tied" : "Untied",
                      std::get<2>(info.param) > 0 ? "Dropout" : "", "Threads", std::get<3>(info.param));
}

INSTANTIATE_TEST_SUITE_P(OneThread, BitwiseLawTest,
                         testing::Combine(testing::Values(1, 2, 5, 8), testing::Bool(), testing::Values(0.0, 0.1),
                                          testing::Values(1)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(OpenMp, BitwiseLawTest,
                         testing::Combine(testing::Values(1, 2, 5, 8), testing::Bool(), testing::Values(0.0, 0.1),
                                          testing::Values(2)),
                         NameOf);

}  // namespace
}  // namespace stagecoach
