#include "coordinator/plan/fit_advice.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "coordinator/plan/testing/small_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using ::testing::AllOf;
using testing::EqualWorkers;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::SmallJobSpec;

v1::JobSpec Spec() {
  v1::JobSpec spec = SmallJobSpec(24, 12);
  spec.mutable_checkpoint()->set_interval_steps(10);
  spec.mutable_checkpoint()->set_async(true);
  return spec;
}

// That the schedule which holds least needs.
uint64_t PeakBytes(const v1::JobSpec& spec, size_t num_workers) {
  const absl::StatusOr<JobCut> cut = CutJob(spec, EqualWorkers(num_workers), {});
  EXPECT_TRUE(cut.ok()) << cut.status();
  uint64_t least = UINT64_MAX;
  for (const ScheduleCandidate& candidate : cut->choice.candidates) {
    if (candidate.status.ok()) least = std::min(least, candidate.peak_bytes);
  }
  return least;
}

std::string Advice(const v1::JobSpec& spec, const std::vector<WorkerProfile>& workers) {
  const absl::Status status = DoesNotFit(spec, workers, {}, absl::ResourceExhaustedError("it is lowered"));
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
  const std::vector<WorkerProfile> workers = EqualWorkers(2, PeakBytes(spec, 2) / 2);
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
  EXPECT_TRUE(CutJob(spec, EqualWorkers(num_workers, workers[0].memory_bytes), {}).ok());
  EXPECT_FALSE(CutJob(spec, EqualWorkers(num_workers - 1, workers[0].memory_bytes), {}).ok());
}

TEST(FitAdviceTest, RecomputationMayBeEnough) {
  v1::JobSpec spec = Spec();
  spec.mutable_parallelism()->set_schedule("gpipe");
  spec.mutable_training()->set_micro_batch_size(2);
  spec.mutable_parallelism()->set_activation_checkpointing("full");
  const uint64_t enough = PeakBytes(spec, 2);
  spec.mutable_parallelism()->set_activation_checkpointing("none");
  EXPECT_THAT(Advice(spec, EqualWorkers(2, enough)),
              HasSubstr("it fits with parallelism.activation_checkpointing selective"));
  spec.mutable_parallelism()->set_activation_checkpointing("selective");
  EXPECT_TRUE(CutJob(spec, EqualWorkers(2, enough), {}).ok());
  EXPECT_THAT(Advice(spec, EqualWorkers(2, enough / 2)), Not(HasSubstr("activation_checkpointing")));
}

TEST(FitAdviceTest, ASnapshotMayBeWhatIsTooMuch) {
  v1::JobSpec without = Spec();
  without.mutable_checkpoint()->set_async(false);
  const uint64_t enough = PeakBytes(without, 16);
  ASSERT_LT(enough, PeakBytes(Spec(), 16));
  EXPECT_THAT(Advice(Spec(), EqualWorkers(16, enough)), HasSubstr("checkpoint.async false"));
}

TEST(FitAdviceTest, AnotherScheduleOrPartitionMayBeEnough) {
  v1::JobSpec spec = Spec();
  spec.mutable_training()->set_micro_batch_size(1);
  const uint64_t least = PeakBytes(spec, 4);
  spec.mutable_parallelism()->set_schedule("gpipe");
  EXPECT_THAT(Advice(spec, EqualWorkers(4, least)), HasSubstr("parallelism.schedule auto"));
  spec.mutable_parallelism()->set_schedule("1f1b");
  const std::vector<WorkerProfile> workers = EqualWorkers(4, PeakBytes(spec, 4));
  spec.mutable_parallelism()->mutable_partition()->set_kind(v1::PartitionSpec::KIND_LAYERS);
  for (const uint32_t blocks : {10U, 2U, 2U, 2U})
    spec.mutable_parallelism()->mutable_partition()->add_num_blocks(blocks);
  EXPECT_THAT(Advice(spec, workers),
              AllOf(HasSubstr("stage 0 (layers 0 to 10)"), HasSubstr("it fits with parallelism.partition auto")));
}

TEST(FitAdviceTest, AnOrderOfTheUsersOwnIsForItsWorkersAndMicroBatches) {
  v1::JobSpec spec = Spec();
  spec.mutable_training()->set_micro_batch_size(1);
  v1::ParallelismSpec& parallelism = *spec.mutable_parallelism();
  parallelism.set_schedule("1f1b");
  const uint64_t least = PeakBytes(spec, 4);
  const auto num_micro_batches = static_cast<uint32_t>(spec.training().global_batch_size());
  *parallelism.mutable_order() =
      *(*FindSchedule("gpipe"))->Build({.num_workers = 4, .num_micro_batches = num_micro_batches});
  parallelism.set_schedule("csv");
  parallelism.set_pipeline_parallel_degree(4);
  parallelism.set_virtual_stages(1);
  EXPECT_THAT(Advice(spec, EqualWorkers(4, least)),
              AllOf(HasSubstr("with parallelism.schedule auto"), Not(HasSubstr("workers")),
                    Not(HasSubstr("training.micro_batch_size"))));
  EXPECT_THAT(Advice(spec, EqualWorkers(4, 1000)), HasSubstr("parallelism.schedule auto does not make it fit either"));
}

// The stages of a worker are the order's, and no wish of the user's.
TEST(FitAdviceTest, InPlaceOfAnOrderAScheduleOfSeveralStagesMayFit) {
  v1::JobSpec spec = Spec();
  spec.mutable_training()->set_micro_batch_size(1);
  v1::ParallelismSpec& parallelism = *spec.mutable_parallelism();
  parallelism.set_schedule("v_half");
  const uint64_t least = PeakBytes(spec, 8);
  parallelism.set_schedule("1f1b");
  ASSERT_LT(least, PeakBytes(spec, 8));
  const auto num_micro_batches = static_cast<uint32_t>(spec.training().global_batch_size());
  *parallelism.mutable_order() =
      *(*FindSchedule("1f1b"))->Build({.num_workers = 8, .num_micro_batches = num_micro_batches});
  parallelism.set_schedule("csv");
  parallelism.set_pipeline_parallel_degree(8);
  parallelism.set_virtual_stages(1);
  EXPECT_THAT(Advice(spec, EqualWorkers(8, least)), HasSubstr("with parallelism.schedule auto"));
}

TEST(FitAdviceTest, WherePartitionsFitTheErrorOfPlanningIsSaid) {
  const absl::Status status =
      DoesNotFit(Spec(), EqualWorkers(2), {}, absl::ResourceExhaustedError("its transfers need more"));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("its transfers need more; it fits with"));
}

TEST(FitAdviceTest, SomeModelsFitNowhere) {
  EXPECT_THAT(Advice(Spec(), EqualWorkers(2, 1000)),
              AllOf(HasSubstr("make the model or training.seq_len smaller"), Not(HasSubstr("fits with"))));
}

}  // namespace
}  // namespace stagecoach
