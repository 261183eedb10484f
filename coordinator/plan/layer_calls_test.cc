#include "coordinator/plan/layer_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "coordinator/spec/job_spec_parser.h"

namespace stagecoach {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

v1::JobSpec TinySpec() {
  std::ifstream file(STAGECOACH_SOURCE_DIR "/examples/tiny.yaml");
  std::stringstream text;
  text << file.rdbuf();
  std::vector<SpecError> errors;
  absl::StatusOr<v1::JobSpec> spec = ParseJobSpec(text.str(), {}, errors);
  EXPECT_TRUE(spec.ok()) << spec.status();
  if (!spec.ok()) return {};
  spec->mutable_parallelism()->set_costs("measured");
  return *std::move(spec);
}

std::vector<std::string> NamesOf(const std::vector<ShapedCall>& calls) {
  std::vector<std::string> names;
  for (const ShapedCall& call : calls) names.push_back(call.call.layer().name());
  return names;
}

TEST(LayerCallsTest, AsksForEachShapeOnce) {
  const v1::JobSpec spec = TinySpec();
  const std::vector<ShapedCall> calls = UnknownCalls(spec, nullptr);
  EXPECT_THAT(NamesOf(calls), ElementsAre("transformer.wte", "transformer.h.0", "transformer.ln_f", "lm_head"));
  for (const ShapedCall& call : calls) {
    EXPECT_EQ(call.shape, LayerShape(call.call.layer(), spec.training().seq_len()));
    EXPECT_EQ(call.call.seq_len(), spec.training().seq_len());
    EXPECT_EQ(call.call.micro_batch_size(), spec.training().micro_batch_size());
    EXPECT_FALSE(call.call.layer().has_cost());
    EXPECT_GT(call.call.layer().parameters_size(), 0);
  }
}

TEST(LayerCallsTest, AsksForWhatIsNotKnown) {
  const v1::JobSpec spec = TinySpec();
  const std::vector<ShapedCall> calls = UnknownCalls(spec, nullptr);
  ASSERT_EQ(calls.size(), 4u);
  LayerCosts known;
  known.Add(calls[1].shape, spec.training().micro_batch_size(), {1, 2, 3});
  known.Add(calls[2].shape, spec.training().micro_batch_size() + 1, {1, 2, 3});  // of another size
  EXPECT_THAT(NamesOf(UnknownCalls(spec, &known)), ElementsAre("transformer.wte", "transformer.ln_f", "lm_head"));
  for (const ShapedCall& call : calls) known.Add(call.shape, call.call.micro_batch_size(), {1, 2, 3});
  EXPECT_THAT(UnknownCalls(spec, &known), IsEmpty());
}

TEST(LayerCallsTest, AsksForNothingWhenTheJobWantsNoneOrIsNoModel) {
  v1::JobSpec spec = TinySpec();
  for (const char* costs : {"analytic", ""}) {
    spec.mutable_parallelism()->set_costs(costs);
    EXPECT_THAT(UnknownCalls(spec, nullptr), IsEmpty());
  }
  spec.mutable_parallelism()->set_costs("measured");
  spec.mutable_model()->set_architecture("none");
  EXPECT_THAT(UnknownCalls(spec, nullptr), IsEmpty());
}

}  // namespace
}  // namespace stagecoach
