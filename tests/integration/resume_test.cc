// A run that is interrupted and goes on at another cut, as often as one likes, has the bits of one that was not: the
// loss of every step, the parameters and the optimizer state.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "formats/checkpoint.h"
#include "tests/integration/embedded_job.h"

namespace stagecoach {
namespace {

constexpr uint64_t kSteps = 12;
constexpr uint32_t kMaxWorkers = 4;
constexpr uint32_t kNumBlocks = 8;  // for two stages on each worker
constexpr std::array kSchedules = {"gpipe", "1f1b", "zb_h1", "zb_h2", "interleaved", "zb_v", "v_half", "dualpipe_v"};

class ResumeTest : public testing::TestWithParam<uint64_t> {
 protected:
  ResumeTest() : random_(GetParam()) {
    v1::TrainingSpec& training = *job_.spec().mutable_training();
    training.set_steps(kSteps);
    training.set_global_batch_size(Below(4) * training.micro_batch_size() + training.micro_batch_size());
    v1::ModelConfig& config = *job_.spec().mutable_model()->mutable_config();
    config.set_num_hidden_layers(kNumBlocks);
    config.set_tie_word_embeddings(Below(2) == 0);
    const double dropout = Below(2) == 0 ? 0 : 0.1;
    config.set_embd_pdrop(dropout);
    config.set_attn_pdrop(dropout);
    config.set_resid_pdrop(dropout);
  }

  uint64_t Below(uint64_t bound) { return std::uniform_int_distribution<uint64_t>(0, bound - 1)(random_); }

  // At a cut, with a schedule and checkpoints that are all left to chance.
  EmbeddedJob::Result RunSomehow(uint64_t steps, const std::string& resume) {
    job_.spec().mutable_training()->set_steps(steps);
    job_.spec().mutable_parallelism()->set_schedule(kSchedules[Below(kSchedules.size())]);
    v1::CheckpointSpec& checkpoint = *job_.spec().mutable_checkpoint();
    checkpoint.set_resume(resume);
    checkpoint.set_interval_steps(1 + Below(3));
    checkpoint.set_async(Below(2) == 0);
    const auto workers = static_cast<uint32_t>(1 + Below(kMaxWorkers));
    SCOPED_TRACE(absl::StrCat("to step ", steps, " on ", workers, " workers with ",
                              job_.spec().parallelism().schedule(), ", resume ", resume));
    const EmbeddedJob::Result result = job_.Run(workers);
    EXPECT_EQ(result.job.status().state(), v1::JOB_STATE_SUCCEEDED) << result.job.status().message();
    return result;
  }
  void ExpectTheEndOf(const EmbeddedJob::Result& whole, const EmbeddedJob::Result& part) {
    ASSERT_LE(part.steps.size(), whole.steps.size());
    const std::vector<double> losses = whole.losses();
    EXPECT_EQ(part.losses(),
              std::vector<double>(losses.end() - static_cast<std::ptrdiff_t>(part.steps.size()), losses.end()));
    EXPECT_EQ(part.job.digest(), whole.job.digest());
    EXPECT_EQ(part.job.state_digest(), whole.job.state_digest());
  }

  std::mt19937_64 random_;
  EmbeddedJob job_;
};

TEST_P(ResumeTest, AnInterruptedRunHasTheBitsOfOneThatWasNot) {
  job_.spec().mutable_checkpoint()->set_dir(job_.directory() + "/whole");
  const EmbeddedJob::Result whole = RunSomehow(kSteps, "never");
  ASSERT_EQ(whole.steps.size(), kSteps);

  // Three resumptions, each from where the one before ended.
  job_.spec().mutable_checkpoint()->set_dir(job_.directory() + "/parts");
  uint64_t done = 1 + Below(3);
  RunSomehow(done, "never");
  for (int i = 0; i < 2; ++i) {
    done += 1 + Below(3);
    RunSomehow(done, "auto");
  }
  ExpectTheEndOf(whole, RunSomehow(kSteps, "auto"));

  // From one that was written on the way, behind training or not.
  const auto found = ListCheckpoints(FileSystem::Posix(), job_.directory() + "/whole");
  ASSERT_TRUE(found.ok()) << found.status();
  const CheckpointDirectory& chosen = found->at(Below(found->size()));
  job_.spec().mutable_checkpoint()->set_dir(job_.directory() + "/whole");
  const EmbeddedJob::Result again = RunSomehow(kSteps, CheckpointDirectoryName(chosen.step));
  EXPECT_EQ(again.steps.size(), kSteps - chosen.step.value());
  ExpectTheEndOf(whole, again);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ResumeTest, testing::Range<uint64_t>(0, 12));

}  // namespace
}  // namespace stagecoach
