#include "coordinator/spec/model_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/layer_memory.h"
#include "coordinator/spec/job_spec_parser.h"
#include "coordinator/spec/spec_test_cases.h"

namespace stagecoach {
namespace {

using ::testing::ElementsAre;

v1::JobSpec Gpt2Spec() {
  std::vector<SpecError> errors;
  return *ParseJobSpec(kGoodSpec, {}, errors);
}

uint64_t Elements(const v1::ParameterSpec& parameter) {
  uint64_t size = 1;
  for (const uint64_t extent : parameter.shape()) size *= extent;
  return size;
}

std::vector<std::string> NamesAndShapes(const v1::LayerSpec& layer) {
  std::vector<std::string> result;
  for (const v1::ParameterSpec& parameter : layer.parameters()) {
    result.push_back(absl::StrCat(parameter.name(), " ", absl::StrJoin(parameter.shape(), "x")));
  }
  return result;
}

TEST(ModelGraphTest, HasTheParametersOfThePublishedGpt2) {
  const v1::ModelGraph graph = *BuildModelGraph(Gpt2Spec());
  ASSERT_EQ(graph.layers_size(), 15);
  uint64_t elements = 0;
  for (const v1::LayerSpec& layer : graph.layers()) {
    for (const v1::ParameterSpec& parameter : layer.parameters()) {
      EXPECT_EQ(parameter.dtype(), v1::DTYPE_F32);
      if (!parameter.has_tied_to_layer()) elements += Elements(parameter);
    }
  }
  EXPECT_EQ(elements, 124'439'808u);
  EXPECT_EQ(graph.micro_batch_size(), 4u);
  EXPECT_EQ(graph.seq_len(), 512u);
}

TEST(ModelGraphTest, NamesLayersAndTensorsAsHuggingFaceDoes) {
  const v1::ModelGraph graph = *BuildModelGraph(Gpt2Spec());
  EXPECT_EQ(graph.layers(0).name(), "transformer.wte");
  EXPECT_THAT(NamesAndShapes(graph.layers(0)),
              ElementsAre("transformer.wte.weight 50257x768", "transformer.wpe.weight 1024x768"));
  EXPECT_EQ(graph.layers(12).name(), "transformer.h.11");
  EXPECT_THAT(NamesAndShapes(graph.layers(12)),
              ElementsAre("transformer.h.11.ln_1.weight 768", "transformer.h.11.ln_1.bias 768",
                          "transformer.h.11.attn.c_attn.weight 768x2304", "transformer.h.11.attn.c_attn.bias 2304",
                          "transformer.h.11.attn.c_proj.weight 768x768", "transformer.h.11.attn.c_proj.bias 768",
                          "transformer.h.11.ln_2.weight 768", "transformer.h.11.ln_2.bias 768",
                          "transformer.h.11.mlp.c_fc.weight 768x3072", "transformer.h.11.mlp.c_fc.bias 3072",
                          "transformer.h.11.mlp.c_proj.weight 3072x768", "transformer.h.11.mlp.c_proj.bias 768"));
  EXPECT_EQ(graph.layers(13).name(), "transformer.ln_f");
  EXPECT_THAT(NamesAndShapes(graph.layers(13)),
              ElementsAre("transformer.ln_f.weight 768", "transformer.ln_f.bias 768"));
  EXPECT_EQ(graph.layers(14).name(), "lm_head");
}

TEST(ModelGraphTest, TiesTheHeadOrNot) {
  v1::JobSpec spec = Gpt2Spec();
  const v1::ModelGraph tied = *BuildModelGraph(spec);
  EXPECT_THAT(NamesAndShapes(tied.layers(14)), ElementsAre("transformer.wte.weight 50257x768"));
  EXPECT_TRUE(tied.layers(14).parameters(0).has_tied_to_layer());
  EXPECT_EQ(tied.layers(14).parameters(0).tied_to_layer(), 0u);
  spec.mutable_model()->mutable_config()->set_tie_word_embeddings(false);
  const v1::ModelGraph untied = *BuildModelGraph(spec);
  EXPECT_THAT(NamesAndShapes(untied.layers(14)), ElementsAre("lm_head.weight 50257x768"));
  EXPECT_FALSE(untied.layers(14).parameters(0).has_tied_to_layer());
}

TEST(ModelGraphTest, InitialisesAndDecaysAsGpt2) {
  const v1::ModelGraph graph = *BuildModelGraph(Gpt2Spec());
  for (const v1::LayerSpec& layer : graph.layers()) {
    for (const v1::ParameterSpec& parameter : layer.parameters()) {
      const bool is_matrix = parameter.shape_size() == 2;
      EXPECT_EQ(parameter.weight_decay(), is_matrix) << parameter.name();
      const bool is_residual = absl::StrContains(parameter.name(), "c_proj.weight");
      if (is_matrix) {
        EXPECT_DOUBLE_EQ(parameter.initializer().normal_std(), is_residual ? 0.02 / std::sqrt(24.0) : 0.02);
      } else {
        EXPECT_EQ(parameter.initializer().constant(), absl::StrContains(parameter.name(), "weight") ? 1 : 0);
      }
    }
  }
}

TEST(ModelGraphTest, DescribesLayersAsTheirKindsSay) {
  v1::JobSpec spec = Gpt2Spec();
  spec.mutable_model()->mutable_config()->set_attn_pdrop(0.25);
  const v1::ModelGraph graph = *BuildModelGraph(spec);
  EXPECT_EQ(graph.layers(0).kind(), v1::LAYER_KIND_TOKEN_EMBEDDING);
  EXPECT_EQ(graph.layers(0).sizes().at("max_position_embeddings"), 1024u);
  EXPECT_EQ(graph.layers(0).scalars().at("embd_pdrop"), 0);
  EXPECT_EQ(graph.layers(1).kind(), v1::LAYER_KIND_TRANSFORMER_BLOCK);
  EXPECT_EQ(graph.layers(1).sizes().at("intermediate_size"), 3072u);
  EXPECT_EQ(graph.layers(1).sizes().at("num_attention_heads"), 12u);
  EXPECT_EQ(graph.layers(1).scalars().at("attn_pdrop"), 0.25);
  EXPECT_EQ(graph.layers(13).kind(), v1::LAYER_KIND_LAYER_NORM);
  EXPECT_EQ(graph.layers(13).scalars().at("layer_norm_epsilon"), 1e-5);
  EXPECT_EQ(graph.layers(14).kind(), v1::LAYER_KIND_LANGUAGE_MODEL_HEAD);
  EXPECT_EQ(graph.layers(14).sizes().at("vocab_size"), 50257u);
}

TEST(ModelGraphTest, CountsWhatGemmsAndAttentionDo) {
  const v1::ModelGraph graph = *BuildModelGraph(Gpt2Spec());
  const double tokens = 4 * 512, hidden = 768;
  const double matrices = 2 * 12 * hidden * hidden * tokens;
  const double attention = 4.0 * (4 * 512.0 * 512.0 * hidden) / 2;
  const v1::LayerCost& block = graph.layers(5).cost();
  EXPECT_DOUBLE_EQ(block.forward_flops(), matrices + attention);
  EXPECT_DOUBLE_EQ(block.backward_input_flops(), matrices + 2.5 * attention);
  EXPECT_DOUBLE_EQ(block.backward_weight_flops(), matrices);
  const v1::LayerCost& head = graph.layers(14).cost();
  EXPECT_DOUBLE_EQ(head.forward_flops(), 4 * tokens * hidden * 50257);
  EXPECT_DOUBLE_EQ(head.backward_input_flops(), 0);
  EXPECT_DOUBLE_EQ(head.backward_weight_flops(), 4 * tokens * hidden * 50257);
  EXPECT_LT(graph.layers(0).cost().forward_flops(), 0.01 * block.forward_flops());
}

TEST(ModelGraphTest, TakesMemoryFromTheSharedFunction) {
  const v1::ModelGraph graph = *BuildModelGraph(Gpt2Spec());
  for (const v1::LayerSpec& layer : graph.layers()) {
    const LayerMemoryBytes bytes = *MemoryOfLayer(layer, 4, 512, 4);
    EXPECT_EQ(layer.cost().saved_bytes(), bytes.saved);
    EXPECT_EQ(layer.cost().shared_bytes(), bytes.shared);
    EXPECT_EQ(layer.cost().pending_bytes(), bytes.pending);
    EXPECT_EQ(layer.cost().scratch_bytes(), bytes.scratch);
    EXPECT_EQ(layer.cost().input_bytes(), bytes.input);
    EXPECT_EQ(layer.cost().output_bytes(), bytes.output);
  }
}

v1::JobSpec FrozenSpec(const std::string& layers) {
  std::vector<SpecError> errors;
  return *ParseJobSpec(kGoodSpec, {{"model.frozen_layers", layers}, {"model.config.tie_word_embeddings", "false"}},
                       errors);
}

TEST(ModelGraphTest, NamesItsLayersBeforeItIsBuilt) {
  std::vector<std::string> names;
  const v1::ModelGraph graph = *BuildModelGraph(Gpt2Spec());
  for (const v1::LayerSpec& layer : graph.layers()) names.push_back(layer.name());
  EXPECT_EQ(LayerNames(Gpt2Spec().model().config()), names);
}

TEST(ModelGraphTest, FrozenLayersCostWhatIsLeftOfThem) {
  const v1::ModelGraph whole = *BuildModelGraph(FrozenSpec("[]"));
  const v1::ModelGraph graph = *BuildModelGraph(FrozenSpec("[transformer.wte, transformer.h.0-2, transformer.h.5]"));
  for (int i = 0; i < graph.layers_size(); ++i) {
    const v1::LayerCost& cost = graph.layers(i).cost();
    const v1::LayerCost& before = whole.layers(i).cost();
    const bool frozen = i <= 3 || i == 6;
    EXPECT_EQ(graph.layers(i).frozen(), frozen) << i;
    EXPECT_EQ(cost.forward_flops(), before.forward_flops()) << i;
    EXPECT_EQ(cost.backward_input_flops(), i <= 3 ? 0 : before.backward_input_flops()) << i;
    EXPECT_EQ(cost.backward_weight_flops(), frozen ? 0 : before.backward_weight_flops()) << i;
    EXPECT_EQ(cost.pending_bytes(), frozen ? 0 : before.pending_bytes()) << i;
    EXPECT_EQ(cost.saved_bytes() + cost.shared_bytes(), i <= 3 ? 0 : before.saved_bytes() + before.shared_bytes()) << i;
    EXPECT_EQ(cost.output_bytes(), before.output_bytes()) << i;
  }
}

TEST(ModelGraphTest, AHeadAloneMakesNoGradientOfItsInput) {
  const v1::LayerCost head = BuildModelGraph(FrozenSpec("[\"transformer.*\"]"))->layers(14).cost();
  const v1::LayerCost whole = BuildModelGraph(FrozenSpec("[]"))->layers(14).cost();
  EXPECT_EQ(head.forward_flops(), whole.forward_flops() / 2);
  EXPECT_EQ(head.backward_weight_flops(), whole.backward_weight_flops());
  EXPECT_EQ(head.saved_bytes(), 0u);
}

TEST(ModelGraphTest, RefusesFrozenLayersThatAreNotResolved) {
  v1::JobSpec spec = Gpt2Spec();
  spec.mutable_model()->add_frozen_layers("transformer.h.1");
  spec.mutable_model()->add_frozen_layers("transformer.h.0");
  EXPECT_FALSE(BuildModelGraph(spec).ok());
  spec.mutable_model()->clear_frozen_layers();
  for (const std::string& name : LayerNames(spec.model().config())) spec.mutable_model()->add_frozen_layers(name);
  EXPECT_FALSE(BuildModelGraph(spec).ok());
}

v1::JobSpec SpecWithConnections(const std::vector<std::pair<std::string, std::string>>& connections) {
  v1::JobSpec spec = Gpt2Spec();
  for (const auto& [from, to] : connections) {
    v1::SkipConnectionSpec& connection = *spec.mutable_model()->add_skip_connections();
    connection.set_from(from);
    connection.set_to(to);
  }
  return spec;
}

TEST(ModelGraphTest, SkipConnectionsJoinLayersByTheirIndices) {
  const v1::ModelGraph graph =
      *BuildModelGraph(SpecWithConnections({{"transformer.wte", "lm_head"}, {"transformer.h.1", "transformer.h.4"}}));
  ASSERT_EQ(graph.skip_connections_size(), 2);
  EXPECT_EQ(graph.skip_connections(0).from_layer(), 0u);
  EXPECT_EQ(graph.skip_connections(0).to_layer(), 14u);
  EXPECT_EQ(graph.skip_connections(1).from_layer(), 2u);
  EXPECT_EQ(graph.skip_connections(1).to_layer(), 5u);
  // Nothing else is different.
  v1::ModelGraph without = graph;
  without.clear_skip_connections();
  EXPECT_EQ(without.DebugString(), BuildModelGraph(Gpt2Spec())->DebugString());
}

TEST(ModelGraphTest, RefusesSkipConnectionsThatAreNotTheModels) {
  const auto refusal = [](const std::vector<std::pair<std::string, std::string>>& connections) {
    const absl::StatusOr<v1::ModelGraph> graph = BuildModelGraph(SpecWithConnections(connections));
    EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument) << graph.status();
    return std::string(graph.status().message());
  };
  EXPECT_EQ(refusal({{"transformer.h.1", "transformer.h.12"}}),
            "model.skip_connections: \"transformer.h.12\" is no layer of the model");
  EXPECT_EQ(refusal({{"", "transformer.h.1"}}), "model.skip_connections: \"\" is no layer of the model");
  EXPECT_THAT(refusal({{"transformer.h.1", "transformer.h.2"}}), testing::HasSubstr("no layer between them to skip"));
  EXPECT_THAT(refusal({{"lm_head", "transformer.wte"}}), testing::HasSubstr("it must lead to a later layer"));
  EXPECT_THAT(refusal({{"transformer.h.3", "transformer.h.5"}, {"transformer.h.1", "transformer.h.7"}}),
              testing::HasSubstr("not in the model's order"));
  EXPECT_THAT(refusal({{"transformer.h.1", "lm_head"}, {"transformer.h.2", "lm_head"}}),
              testing::HasSubstr("two skip connections end at lm_head"));
}

TEST(ModelGraphTest, RefusesSizesThatNoMemoryHolds) {
  const auto refuses = [](const std::vector<SpecOverride>& overrides) {
    std::vector<SpecError> errors;
    const absl::StatusOr<v1::JobSpec> spec = ParseJobSpec(kGoodSpec, overrides, errors);
    ASSERT_TRUE(spec.ok()) << FormatSpecError("f", errors.at(0));
    const absl::StatusOr<v1::ModelGraph> graph = BuildModelGraph(*spec);
    EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument) << overrides[0].path << graph.status();
  };
  refuses({{"model.config.hidden_size", "1048572"}, {"model.config.num_hidden_layers", "4096"}});
  refuses({{"training.micro_batch_size", "65535"},
           {"training.global_batch_size", "65535"},
           {"training.seq_len", "1048576"},
           {"model.config.max_position_embeddings", "1048576"}});
  refuses({{"training.micro_batch_size", "60000"},
           {"training.global_batch_size", "60000"},
           {"training.seq_len", "32768"},
           {"model.config.max_position_embeddings", "1048576"},
           {"model.config.hidden_size", "786432"}});

  v1::JobSpec unresolved = Gpt2Spec();
  unresolved.mutable_model()->mutable_config()->set_num_attention_heads(0);
  EXPECT_FALSE(BuildModelGraph(unresolved).ok());
  unresolved = Gpt2Spec();
  unresolved.mutable_model()->set_architecture("llama");
  EXPECT_FALSE(BuildModelGraph(unresolved).ok());
  EXPECT_FALSE(BuildModelGraph(v1::JobSpec()).ok());
}

}  // namespace
}  // namespace stagecoach
