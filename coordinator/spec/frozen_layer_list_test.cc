#include "coordinator/spec/frozen_layer_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "coordinator/spec/job_spec_parser.h"
#include "coordinator/spec/spec_test_cases.h"

namespace stagecoach {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Of a model with 12 blocks and an untied head.
std::vector<std::string> FrozenBy(const std::string& list) {
  std::vector<SpecError> errors;
  const auto spec =
      ParseJobSpec(kGoodSpec, {{"model.frozen_layers", list}, {"model.config.tie_word_embeddings", "false"}}, errors);
  EXPECT_TRUE(spec.ok()) << list << ": " << (errors.empty() ? "" : FormatSpecError("f", errors[0]));
  if (!spec.ok()) return {};
  return {spec->model().frozen_layers().begin(), spec->model().frozen_layers().end()};
}

std::string ErrorOf(const std::string& list, const std::string& tied = "false") {
  const std::vector<std::string> lines =
      ErrorLinesOf(kGoodSpec, {{"model.frozen_layers", list}, {"model.config.tie_word_embeddings", tied}});
  EXPECT_EQ(lines.size(), 1u) << list;
  return lines.empty() ? "" : lines[0];
}

TEST(FrozenLayerListTest, NamesAreResolvedInTheModelsOrder) {
  EXPECT_THAT(FrozenBy("[]"), IsEmpty());
  EXPECT_THAT(FrozenBy("[transformer.h.1, transformer.wte]"), ElementsAre("transformer.wte", "transformer.h.1"));
  EXPECT_THAT(FrozenBy("[lm_head, transformer.ln_f]"), ElementsAre("transformer.ln_f", "lm_head"));
}

TEST(FrozenLayerListTest, AStarAndARangeStandForSeveralLayers) {
  EXPECT_THAT(FrozenBy("[transformer.h.9-11]"), ElementsAre("transformer.h.9", "transformer.h.10", "transformer.h.11"));
  EXPECT_THAT(FrozenBy("[transformer.h.3-3]"), ElementsAre("transformer.h.3"));
  EXPECT_THAT(FrozenBy("[transformer.h.1*]"), ElementsAre("transformer.h.1", "transformer.h.10", "transformer.h.11"));
  EXPECT_THAT(FrozenBy("[\"*.*e\", \"*head*\"]"), ElementsAre("transformer.wte", "lm_head"));
  EXPECT_EQ(FrozenBy("[transformer.h.*]").size(), 12u);
  EXPECT_EQ(FrozenBy("[transformer.*]").size(), 14u);
}

TEST(FrozenLayerListTest, WhatIsResolvedIsReadBack) {
  std::vector<SpecError> errors;
  const auto spec = ParseJobSpec(kGoodSpec, {{"model.frozen_layers", "[transformer.h.0-2]"}}, errors);
  ASSERT_TRUE(spec.ok()) << spec.status();
  const std::string text = PrintJobSpec(*spec);
  EXPECT_THAT(text, HasSubstr("  frozen_layers: [transformer.h.0, transformer.h.1, transformer.h.2]\n"));
  EXPECT_EQ(PrintJobSpec(*ParseJobSpec(text, {}, errors)), text);
  EXPECT_TRUE(CheckJobSpec(*spec).ok()) << CheckJobSpec(*spec);
  v1::JobSpec unresolved = *spec;
  unresolved.mutable_model()->set_frozen_layers(0, "transformer.h.4");
  EXPECT_FALSE(CheckJobSpec(unresolved).ok());
}

TEST(FrozenLayerListTest, ErrorsSayWhere) {
  EXPECT_THAT(ErrorLinesOf(GoodSpecWith("  architecture: gpt2\n",
                                        "  architecture: gpt2\n"
                                        "  frozen_layers:\n"
                                        "    - transformer.h.0\n"
                                        "    - transformer.wtee\n")),
              ElementsAre("f:7:7: model.frozen_layers[1]: \"transformer.wtee\" is no layer of the model; "
                          "did you mean transformer.wte?"));
}

TEST(FrozenLayerListTest, WhatIsNoLayerIsAnErrorWithAHint) {
  const std::string layers =
      "; the layers are transformer.wte, transformer.h.0 to transformer.h.11, transformer.ln_f and lm_head";
  EXPECT_EQ(ErrorOf("[transformer.h.12]"),
            "f: --set model.frozen_layers[0]: \"transformer.h.12\" is no layer of the model" + layers);
  EXPECT_EQ(ErrorOf("[transformer.h.10-12]"),
            "f: --set model.frozen_layers[0]: \"transformer.h.10-12\" is no layer of the model" + layers);
  EXPECT_EQ(ErrorOf("[\"h.*\"]"), "f: --set model.frozen_layers[0]: \"h.*\" matches no layer" + layers);
  EXPECT_THAT(ErrorOf("[transformer.h.5-3]"), HasSubstr("\"transformer.h.5-3\" ends before it begins"));
  EXPECT_THAT(ErrorOf("[transformer.h.3.attn.c_attn.weight]"),
              HasSubstr("layers are frozen whole; did you mean transformer.h.3?"));
  EXPECT_THAT(ErrorOf("[lm_heat]"), HasSubstr("did you mean lm_head?"));
  EXPECT_THAT(ErrorOf("[embeddings]"), HasSubstr("the layers are transformer.wte, "));
}

TEST(FrozenLayerListTest, ALayerIsNamedOnce) {
  EXPECT_THAT(ErrorOf("[lm_head, lm_head]"),
              HasSubstr("model.frozen_layers[1]: lm_head is frozen by model.frozen_layers[0] already; "
                        "name every layer once"));
  EXPECT_THAT(ErrorOf("[transformer.h.*, transformer.h.4-6]"), HasSubstr("transformer.h.4 is frozen by"));
}

TEST(FrozenLayerListTest, SomethingIsLeftToTrain) {
  EXPECT_EQ(ErrorOf("[\"*\"]"), "f: --set model.frozen_layers: every layer is frozen, and nothing is left to train");
}

TEST(FrozenLayerListTest, ATiedTensorIsTrainedOrNot) {
  EXPECT_EQ(ErrorOf("[transformer.wte]", "true"),
            "f: --set model.frozen_layers: transformer.wte is frozen and lm_head is not, and "
            "model.config.tie_word_embeddings makes one tensor of their matrices; freeze both, or set "
            "model.config.tie_word_embeddings to false");
  EXPECT_THAT(ErrorOf("[lm_head]", "true"), HasSubstr("lm_head is frozen and transformer.wte is not"));
  EXPECT_THAT(ErrorLinesOf(kGoodSpec, {{"model.frozen_layers", "[transformer.wte, lm_head]"}}), IsEmpty());
  EXPECT_THAT(ErrorLinesOf(kGoodSpec, {{"model.frozen_layers", "[transformer.h.*]"}}), IsEmpty());
}

TEST(FrozenLayerListTest, OtherValuesAreRefused) {
  EXPECT_THAT(ErrorOf("transformer.wte"), HasSubstr("expected a list of layers, got"));
  EXPECT_THAT(ErrorOf("[{a: b}]"), HasSubstr("model.frozen_layers[0]"));
  EXPECT_THAT(ErrorOf("[7]"), HasSubstr("model.frozen_layers[0]"));
  EXPECT_THAT(ErrorOf("[\"\"]"), HasSubstr("a layer's name has 1 to 128 bytes"));
  EXPECT_THAT(ErrorOf("[" + std::string(129, 'a') + "]"), HasSubstr("a layer's name has 1 to 128 bytes"));
  std::string many = "[a";
  for (int i = 0; i < 4100; ++i) many += ", a";
  EXPECT_THAT(ErrorOf(many + "]"), HasSubstr("4101 entries; at most 4100"));
  std::string patterns = "[\"a*\"";
  for (int i = 0; i < 64; ++i) patterns += ", \"a*\"";
  EXPECT_THAT(ErrorOf(patterns + "]"), HasSubstr("model.frozen_layers[64]: more than 64 entries with *"));
}

// Whatever else is wrong is said alone: which layers there are is not known.
TEST(FrozenLayerListTest, AModelThatIsWrongHasNoLayers) {
  EXPECT_THAT(
      ErrorLinesOf(kGoodSpec, {{"model.frozen_layers", "[nothing]"}, {"model.config.num_hidden_layers", "many"}}),
      ElementsAre(HasSubstr("model.config.num_hidden_layers")));
}

}  // namespace
}  // namespace stagecoach
