#include "coordinator/plan/fit_advice.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

v1::JobSpec Spec() {
  v1::JobSpec spec;
  spec.mutable_model()->set_architecture("gpt2");
  v1::ModelConfig& config = *spec.mutable_model()->mutable_config();
  config.set_num_hidden_layers(16);
  config.set_hidden_size(256);
  config.set_num_attention_heads(4);
  config.set_vocab_size(256);
  config.set_max_position_embeddings(128);
  spec.mutable_training()->set_seq_len(128);
  spec.mutable_training()->set_global_batch_size(24);
  spec.mutable_training()->set_micro_batch_size(12);
  spec.mutable_optimizer()->set_name("adamw");
  spec.mutable_parallelism()->set_schedule("auto");
  spec.mutable_parallelism()->mutable_partition()->set_kind(v1::PartitionSpec::KIND_AUTO);
  spec.mutable_checkpoint()->set_interval_steps(10);
  spec.mutable_checkpoint()->set_async(true);
  return spec;
}

std::vector<WorkerProfile> Workers(size_t count, uint64_t memory_bytes) {
  return std::vector<WorkerProfile>(count, {.memory_bytes = memory_bytes});
}

uint64_t PeakBytes(const v1::JobSpec& spec, size_t num_workers) {
  const absl::StatusOr<JobCut> cut = CutJob(spec, Workers(num_workers, 0), {});
  return cut.ok() ? cut->choice.cut.peak_bytes : 0;
}

std::string Advice(const v1::JobSpec& spec, const std::vector<WorkerProfile>& workers) {
  const absl::Status status = DoesNotFit(spec, workers, {});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  return std::string(status.message());
}

// The whole number behind the first `words` that have one.
uint64_t NumberBehind(const std::string& words, const std::string& text) {
  for (size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) {
    const size_t digits = at + words.size() + 1;
    if (digits < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[digits]))) {
      return std::stoull(text.substr(digits));
    }
  }
  return 0;
}

TEST(FitAdviceTest, SaysWhatIsLackingAndTheSmallestChangesThatHelp) {
  const v1::JobSpec spec = Spec();
  const std::vector<WorkerProfile> workers = Workers(2, PeakBytes(spec, 2) / 2);
  const std::string advice = Advice(spec, workers);
  EXPECT_THAT(advice, AllOf(HasSubstr("stage "), HasSubstr("bytes and worker"), HasSubstr("are lacking; it fits with"),
                            HasSubstr(" workers"), HasSubstr("training.micro_batch_size ")));
  // What is advised fits, and a smaller change of its kind does not.
  const uint64_t size = NumberBehind("training.micro_batch_size", advice);
  ASSERT_GT(size, 0u);
  for (uint64_t larger = size; larger <= 12; ++larger) {
    if (24 % larger != 0) continue;
    v1::JobSpec changed = spec;
    changed.mutable_training()->set_micro_batch_size(larger);
    EXPECT_EQ(CutJob(changed, workers, {}).ok(), larger == size) << larger;
  }
  const uint64_t num_workers = NumberBehind("fits with", advice);
  ASSERT_GT(num_workers, 2u);
  EXPECT_TRUE(CutJob(spec, Workers(num_workers, workers[0].memory_bytes), {}).ok());
  EXPECT_FALSE(CutJob(spec, Workers(num_workers - 1, workers[0].memory_bytes), {}).ok());
}

TEST(FitAdviceTest, ASnapshotMayBeWhatIsTooMuch) {
  v1::JobSpec without = Spec();
  without.mutable_checkpoint()->set_async(false);
  const uint64_t enough = PeakBytes(without, 16);
  ASSERT_LT(enough, PeakBytes(Spec(), 16));
  EXPECT_THAT(Advice(Spec(), Workers(16, enough)), HasSubstr("checkpoint.async false"));
}

TEST(FitAdviceTest, AnotherScheduleOrPartitionMayBeEnough) {
  v1::JobSpec spec = Spec();
  spec.mutable_training()->set_micro_batch_size(1);
  const std::vector<WorkerProfile> workers = Workers(4, PeakBytes(spec, 4));
  spec.mutable_parallelism()->set_schedule("gpipe");
  EXPECT_THAT(Advice(spec, workers), HasSubstr("parallelism.schedule auto"));
  spec.mutable_parallelism()->set_schedule("1f1b");
  spec.mutable_parallelism()->mutable_partition()->set_kind(v1::PartitionSpec::KIND_LAYERS);
  for (const uint32_t blocks : {10, 2, 2, 2}) spec.mutable_parallelism()->mutable_partition()->add_num_blocks(blocks);
  EXPECT_THAT(Advice(spec, workers),
              AllOf(HasSubstr("stage 0 (layers 0 to 10)"), HasSubstr("it fits with parallelism.partition auto")));
}

TEST(FitAdviceTest, SomeModelsFitNowhere) {
  EXPECT_THAT(Advice(Spec(), Workers(2, 1000)),
              AllOf(HasSubstr("make the model or training.seq_len smaller"), Not(HasSubstr("fits with"))));
}

}  // namespace
}  // namespace stagecoach
