#include "coordinator/plan/asked_partition.h"

#include <string>
#include <vector>

#include "coordinator/plan/layer_loads.h"
#include "coordinator/program/testing/small_pipeline.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// An embedding, blocks, a norm and a head, on equal workers.
PartitionProblem Problem(uint32_t num_blocks, size_t num_stages) {
  return {.layers = LayerLoadsOf(testing::SmallGraph(num_blocks, true), {}),
          .workers = std::vector<WorkerCapacity>(num_stages)};
}

v1::PartitionSpec Spec(v1::PartitionSpec::Kind kind, const std::vector<uint32_t>& num_blocks = {}) {
  v1::PartitionSpec spec;
  spec.set_kind(kind);
  for (const uint32_t blocks : num_blocks) spec.add_num_blocks(blocks);
  return spec;
}

TEST(AskedPartitionTest, EvenAndListedPartitionsCountBlocks) {
  // Embedding 0, blocks 1 to 5, norm 6, head 7.
  EXPECT_THAT(PartitionAsAsked(Problem(5, 2), Spec(v1::PartitionSpec::KIND_EVEN))->stages,
              ElementsAre(LayerRange{0, 3}, LayerRange{4, 7}));
  EXPECT_THAT(PartitionAsAsked(Problem(5, 1), Spec(v1::PartitionSpec::KIND_EVEN))->stages,
              ElementsAre(LayerRange{0, 7}));
  EXPECT_THAT(PartitionAsAsked(Problem(5, 3), Spec(v1::PartitionSpec::KIND_LAYERS, {1, 3, 1}))->stages,
              ElementsAre(LayerRange{0, 1}, LayerRange{2, 4}, LayerRange{5, 7}));
}

TEST(AskedPartitionTest, RefusesListsThatDoNotFit) {
  const auto refusal = [](const std::vector<uint32_t>& list, size_t num_stages) {
    const absl::StatusOr<Partition> partition =
        PartitionAsAsked(Problem(5, num_stages), Spec(v1::PartitionSpec::KIND_LAYERS, list));
    EXPECT_EQ(partition.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(partition.status().message());
  };
  EXPECT_THAT(refusal({2, 2}, 2), AllOf(HasSubstr("[2, 2] sums to 4"), HasSubstr("num_hidden_layers is 5")));
  EXPECT_THAT(refusal({2, 3}, 3), HasSubstr("is for 2 stages, and there are 3"));
  EXPECT_THAT(refusal({0, 5}, 2), HasSubstr("without a block"));
  EXPECT_THAT(refusal({4294967295, 6}, 2), HasSubstr("sums to 4294967301"));
}

TEST(AskedPartitionTest, RefusesMoreStagesThanBlocks) {
  for (const auto kind : {v1::PartitionSpec::KIND_AUTO, v1::PartitionSpec::KIND_EVEN, v1::PartitionSpec::KIND_LAYERS}) {
    const absl::StatusOr<Partition> partition = PartitionAsAsked(Problem(3, 4), Spec(kind));
    EXPECT_EQ(partition.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(partition.status().message()), HasSubstr("4 stages for 3 transformer blocks"));
  }
  EXPECT_EQ(PartitionAsAsked(Problem(3, 0), Spec(v1::PartitionSpec::KIND_AUTO)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(AskedPartitionTest, RefusesAskedStagesThatDoNotFit) {
  PartitionProblem problem = Problem(4, 2);
  for (LayerLoad& layer : problem.layers) layer.state_bytes = 10, layer.scratch_bytes = 0;
  problem.workers[0].memory_bytes = 29;
  problem.workers[1].memory_bytes = 50;
  EXPECT_EQ(PartitionAsAsked(problem, Spec(v1::PartitionSpec::KIND_EVEN)).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(PartitionAsAsked(problem, Spec(v1::PartitionSpec::KIND_LAYERS, {1, 3})).ok());
  EXPECT_THAT(PartitionAsAsked(problem, Spec(v1::PartitionSpec::KIND_AUTO))->stages,
              ElementsAre(LayerRange{0, 1}, LayerRange{2, 6}));
}

}  // namespace
}  // namespace stagecoach
