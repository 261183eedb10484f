#include "coordinator/plan/layer_calls.h"

#include <string>
#include <vector>

#include "coordinator/plan/testing/tiny_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::TinySpec;

std::vector<std::string> NamesOf(const std::vector<ShapedCall>& calls) {
  std::vector<std::string> names;
  for (const ShapedCall& call : calls) names.push_back(call.call.layer().name());
  return names;
}

TEST(LayerCallsTest, AsksForEachShapeOnce) {
  const v1::JobSpec spec = TinySpec();
  const std::vector<ShapedCall> calls = UnknownCalls(spec, 2, nullptr);
  EXPECT_THAT(NamesOf(calls), ElementsAre("transformer.h.0", "transformer.wte", "transformer.ln_f", "lm_head"));
  for (const ShapedCall& call : calls) {
    EXPECT_EQ(call.shape, LayerShape(call.call.layer(), spec.training().seq_len()));
    EXPECT_EQ(call.call.seq_len(), spec.training().seq_len());
    EXPECT_EQ(call.call.micro_batch_size(), spec.training().micro_batch_size());
    EXPECT_FALSE(call.call.layer().has_cost());
    EXPECT_GT(call.call.layer().parameters_size(), 0);
  }
}

TEST(LayerCallsTest, FrozenLayersAreMeasuredWhole) {
  v1::JobSpec spec = TinySpec();
  spec.mutable_model()->add_frozen_layers("transformer.h.0");
  const std::vector<ShapedCall> calls = UnknownCalls(spec, 2, nullptr);
  ASSERT_EQ(calls.size(), 4u);
  EXPECT_EQ(calls[0].call.layer().name(), "transformer.h.0");
  for (const ShapedCall& call : calls) EXPECT_FALSE(call.call.layer().frozen());
}

TEST(LayerCallsTest, AsksForWhatIsNotKnown) {
  const v1::JobSpec spec = TinySpec();
  const std::vector<ShapedCall> calls = UnknownCalls(spec, 2, nullptr);
  ASSERT_EQ(calls.size(), 4u);
  LayerCosts known;
  known.Add(calls[0].shape, spec.training().micro_batch_size(), {1, 2, 3});
  known.Add(calls[2].shape, spec.training().micro_batch_size() + 1, {1, 2, 3});  // of another size
  EXPECT_THAT(NamesOf(UnknownCalls(spec, 2, &known)), ElementsAre("transformer.wte", "transformer.ln_f", "lm_head"));
  for (const ShapedCall& call : calls) known.Add(call.shape, call.call.micro_batch_size(), {1, 2, 3});
  EXPECT_THAT(UnknownCalls(spec, 2, &known), IsEmpty());
}

TEST(LayerCallsTest, WithoutASizeAsksForThreeTheSmallOnesFirst) {
  v1::JobSpec spec = TinySpec();
  spec.mutable_training()->set_micro_batch_size(0);
  spec.mutable_training()->set_global_batch_size(16);
  const std::vector<ShapedCall> calls = UnknownCalls(spec, 2, nullptr);
  std::vector<uint64_t> sizes;
  for (const ShapedCall& call : calls) sizes.push_back(call.call.micro_batch_size());
  EXPECT_THAT(sizes, ElementsAre(1, 1, 1, 1, 4, 4, 4, 4, 8, 8, 8, 8));
  LayerCosts known;
  for (const ShapedCall& call : calls) known.Add(call.shape, call.call.micro_batch_size(), {1, 2, 3});
  EXPECT_THAT(UnknownCalls(spec, 2, &known), IsEmpty());
}

TEST(LayerCallsTest, AsksForNothingWhenTheJobWantsNoneOrIsNoModel) {
  v1::JobSpec spec = TinySpec();
  for (const char* costs : {"analytic", ""}) {
    spec.mutable_parallelism()->set_costs(costs);
    EXPECT_THAT(UnknownCalls(spec, 2, nullptr), IsEmpty());
  }
  spec.mutable_parallelism()->set_costs("measured");
  spec.mutable_model()->set_architecture("none");
  EXPECT_THAT(UnknownCalls(spec, 2, nullptr), IsEmpty());
}

}  // namespace
}  // namespace stagecoach
