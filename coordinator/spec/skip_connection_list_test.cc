#include "coordinator/spec/skip_connection_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/spec/job_spec_parser.h"
#include "coordinator/spec/spec_test_cases.h"

namespace stagecoach {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Of a model with 12 blocks: "h.1 > h.4".
std::vector<std::string> ConnectionsOf(const std::string& list) {
  std::vector<SpecError> errors;
  const auto spec = ParseJobSpec(kGoodSpec, {{"model.skip_connections", list}}, errors);
  EXPECT_TRUE(spec.ok()) << list << ": " << (errors.empty() ? "" : FormatSpecError("f", errors[0]));
  std::vector<std::string> connections;
  if (!spec.ok()) return connections;
  for (const v1::SkipConnectionSpec& connection : spec->model().skip_connections()) {
    connections.push_back(absl::StrCat(connection.from(), " > ", connection.to()));
  }
  return connections;
}

std::vector<std::string> ErrorsIn(const std::string& list) {
  return ErrorLinesOf(kGoodSpec, {{"model.skip_connections", list}});
}

std::string ErrorOf(const std::string& list) {
  const std::vector<std::string> lines = ErrorsIn(list);
  EXPECT_EQ(lines.size(), 1u) << list;
  return lines.empty() ? "" : lines[0];
}

TEST(SkipConnectionListTest, IsPutInTheModelsOrder) {
  EXPECT_THAT(ConnectionsOf("[]"), IsEmpty());
  EXPECT_THAT(ConnectionsOf("[{from: transformer.h.10, to: lm_head}, {to: transformer.h.4, from: transformer.h.2}, "
                            "{from: transformer.wte, to: transformer.ln_f}]"),
              ElementsAre("transformer.wte > transformer.ln_f", "transformer.h.2 > transformer.h.4",
                          "transformer.h.10 > lm_head"));
  // One may start where another ends.
  EXPECT_THAT(
      ConnectionsOf("[{from: transformer.h.4, to: transformer.h.6}, {from: transformer.h.1, to: transformer.h.4}]"),
      ElementsAre("transformer.h.1 > transformer.h.4", "transformer.h.4 > transformer.h.6"));
}

TEST(SkipConnectionListTest, WhatIsResolvedIsReadBack) {
  std::vector<SpecError> errors;
  const auto spec = ParseJobSpec(kGoodSpec,
                                 {{"model.skip_connections",
                                   "[{from: transformer.h.3, to: transformer.h.5}, {from: transformer.h.1, to: "
                                   "transformer.h.7}]"}},
                                 errors);
  ASSERT_TRUE(spec.ok()) << spec.status();
  const std::string text = PrintJobSpec(*spec);
  EXPECT_THAT(text, HasSubstr("  skip_connections: [{from: transformer.h.1, to: transformer.h.7}, "
                              "{from: transformer.h.3, to: transformer.h.5}]\n"));
  EXPECT_EQ(PrintJobSpec(*ParseJobSpec(text, {}, errors)), text);
  EXPECT_TRUE(CheckJobSpec(*spec).ok()) << CheckJobSpec(*spec);
  v1::JobSpec unresolved = *spec;
  unresolved.mutable_model()->mutable_skip_connections()->SwapElements(0, 1);
  EXPECT_FALSE(CheckJobSpec(unresolved).ok());
  unresolved = *spec;
  unresolved.mutable_model()->mutable_skip_connections(0)->clear_to();
  EXPECT_FALSE(CheckJobSpec(unresolved).ok());
}

TEST(SkipConnectionListTest, ErrorsSayWhere) {
  EXPECT_THAT(ErrorLinesOf(GoodSpecWith("  architecture: gpt2\n",
                                        "  architecture: gpt2\n"
                                        "  skip_connections:\n"
                                        "    - {from: transformer.h.0, to: transformer.h.3}\n"
                                        "    - {from: transformer.wtee, to: transformer.h.2}\n"
                                        "    - from: transformer.h.5\n"
                                        "      to: transformer.h.3\n")),
              ElementsAre("f:7:14: model.skip_connections[1].from: \"transformer.wtee\" is no layer of the model; "
                          "did you mean transformer.wte?",
                          "f:8:7: model.skip_connections[2]: leads back, from transformer.h.5 to transformer.h.3; the "
                          "lower layer is its start",
                          "f:9:11: model.skip_connections[2].to: transformer.h.3 is the end of "
                          "model.skip_connections[0] already; one connection ends at a layer"));
}

TEST(SkipConnectionListTest, EveryProblemIsSaid) {
  EXPECT_THAT(ErrorsIn("[{from: transformer.h.1, to: nothing}, {from: transformer.h.1}, transformer.h.3, "
                       "{form: transformer.h.4, to: transformer.h.9}, {from: transformer.h.6, to: transformer.h.7}]"),
              ElementsAre(HasSubstr("[1].to: is required and missing"), HasSubstr("[2]: expected a mapping"),
                          HasSubstr("[3].form: unknown key; did you mean from?"),
                          HasSubstr("[3].from: is required and missing"), HasSubstr("[0].to: \"nothing\" is no layer"),
                          HasSubstr("[1].from: transformer.h.1 is the start of model.skip_connections[0] already"),
                          HasSubstr("[4]: leads past no layer")));
}

TEST(SkipConnectionListTest, WhatIsNoLayerIsAnErrorWithAHint) {
  EXPECT_EQ(ErrorOf("[{from: transformer.h.1, to: transformer.h.12}]"),
            "f: --set model.skip_connections[0].to: \"transformer.h.12\" is no layer of the model; the layers are "
            "transformer.wte, transformer.h.0 to transformer.h.11, transformer.ln_f and lm_head");
  EXPECT_THAT(ErrorOf("[{from: transformer.h.1.mlp.c_proj.weight, to: lm_head}]"),
              HasSubstr("whole layers are joined; did you mean transformer.h.1?"));
  EXPECT_THAT(ErrorOf("[{from: transformer.h.1, to: lm_heat}]"), HasSubstr("did you mean lm_head?"));
  EXPECT_THAT(ErrorOf("[{from: \"transformer.h.*\", to: lm_head}]"), HasSubstr("is no layer of the model"));
}

TEST(SkipConnectionListTest, AWayLeadsPastALayerAtLeast) {
  EXPECT_EQ(ErrorOf("[{from: transformer.h.4, to: transformer.h.1}]"),
            "f: --set model.skip_connections[0]: leads back, from transformer.h.4 to transformer.h.1; the lower layer "
            "is its start");
  EXPECT_EQ(ErrorOf("[{from: transformer.h.4, to: transformer.h.5}]"),
            "f: --set model.skip_connections[0]: leads past no layer, from transformer.h.4 to transformer.h.5; its end "
            "is at least two layers behind its start");
  EXPECT_EQ(ErrorOf("[{from: transformer.h.4, to: transformer.h.4}]"),
            "f: --set model.skip_connections[0]: leads from transformer.h.4 to itself");
  EXPECT_THAT(ErrorOf("[{from: transformer.ln_f, to: lm_head}]"), HasSubstr("leads past no layer"));
}

TEST(SkipConnectionListTest, TheEndsOfAModelHaveNoSuchActivation) {
  EXPECT_EQ(ErrorOf("[{from: transformer.h.4, to: transformer.wte}]"),
            "f: --set model.skip_connections[0].to: transformer.wte reads tokens, to which nothing can be added");
  EXPECT_EQ(ErrorOf("[{from: lm_head, to: transformer.h.2}]"),
            "f: --set model.skip_connections[0].from: lm_head is the last layer: nothing comes behind it");
}

TEST(SkipConnectionListTest, OneStartsAndOneEndsAtALayer) {
  EXPECT_EQ(ErrorOf("[{from: transformer.h.4, to: lm_head}, {from: transformer.h.4, to: transformer.h.9}]"),
            "f: --set model.skip_connections[1].from: transformer.h.4 is the start of model.skip_connections[0] "
            "already; one connection starts at a layer");
  EXPECT_EQ(ErrorOf("[{from: transformer.h.4, to: lm_head}, {from: transformer.h.3, to: lm_head}]"),
            "f: --set model.skip_connections[1].to: lm_head is the end of model.skip_connections[0] already; one "
            "connection ends at a layer");
}

TEST(SkipConnectionListTest, OtherValuesAreRefused) {
  EXPECT_EQ(ErrorOf("{from: transformer.h.1, to: transformer.h.4}"),
            "f: --set model.skip_connections: expected a list of connections, got a mapping; write [{from: "
            "transformer.h.1, to: transformer.h.4}]");
  EXPECT_EQ(ErrorOf("[[transformer.h.1, transformer.h.4]]"),
            "f: --set model.skip_connections[0]: expected a mapping, got a list; write {from: transformer.h.1, to: "
            "transformer.h.4}");
  EXPECT_THAT(ErrorOf("[{from: 7, to: lm_head}]"), HasSubstr("model.skip_connections[0].from: expected text"));
  EXPECT_THAT(ErrorOf("[{from: \"\", to: lm_head}]"), HasSubstr("a layer's name has 1 to 128 bytes"));
  EXPECT_THAT(ErrorOf("[{from: " + std::string(129, 'a') + ", to: lm_head}]"), HasSubstr("has 1 to 128 bytes"));
  EXPECT_THAT(ErrorOf("[{from: transformer.h.1, to: lm_head, scale: 0.5}]"),
              HasSubstr("model.skip_connections[0].scale: unknown key; a connection has from and to"));
  EXPECT_THAT(ErrorOf("[{from: transformer.h.1, to: lm_head, to: lm_head}]"),
              HasSubstr("model.skip_connections[0].to: the key is given twice"));
  std::string many = "[{}";
  for (int i = 0; i < 4100; ++i) many += ", {}";
  EXPECT_THAT(ErrorOf(many + "]"), HasSubstr("4101 entries; at most 4100"));
}

// Whatever else is wrong is said alone: which layers there are is not known.
TEST(SkipConnectionListTest, AModelThatIsWrongHasNoLayers) {
  EXPECT_THAT(ErrorLinesOf(kGoodSpec, {{"model.skip_connections", "[{from: a, to: b}]"},
                                       {"model.config.num_hidden_layers", "many"}}),
              ElementsAre(HasSubstr("model.config.num_hidden_layers")));
}

}  // namespace
}  // namespace stagecoach
