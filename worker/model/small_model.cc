#include "worker/model/small_model.h"

#include <initializer_list>
#include <string>

#include "absl/strings/str_cat.h"

namespace stagecoach {
namespace {

v1::LayerSpec MakeLayer(const SmallModel& model, const std::string& name, v1::LayerKind kind) {
  v1::LayerSpec layer;
  layer.set_name(name);
  layer.set_kind(kind);
  auto& sizes = *layer.mutable_sizes();
  sizes["hidden_size"] = model.hidden;
  sizes["num_attention_heads"] = model.heads;
  sizes["intermediate_size"] = 4 * model.hidden;
  sizes["vocab_size"] = model.vocab;
  sizes["max_position_embeddings"] = model.positions;
  auto& scalars = *layer.mutable_scalars();
  scalars["layer_norm_epsilon"] = 1e-5;
  for (const char* key : {"embd_pdrop", "attn_pdrop", "resid_pdrop"}) scalars[key] = model.dropout;
  return layer;
}

v1::ParameterSpec& AddParameter(v1::LayerSpec& layer, const std::string& name, std::initializer_list<uint64_t> shape) {
  v1::ParameterSpec& parameter = *layer.add_parameters();
  parameter.set_name(name);
  parameter.set_dtype(v1::DTYPE_F32);
  for (const uint64_t dim : shape) parameter.add_shape(dim);
  parameter.set_weight_decay(shape.size() > 1);
  return parameter;
}

void AddMatrix(const SmallModel& model, v1::LayerSpec& layer, const std::string& name,
               std::initializer_list<uint64_t> shape) {
  AddParameter(layer, name, shape).mutable_initializer()->set_normal_std(model.std);
}

void AddVector(v1::LayerSpec& layer, const std::string& name, uint64_t size, double value) {
  AddParameter(layer, name, {size}).mutable_initializer()->set_constant(value);
}

void AddBlockParameters(const SmallModel& model, v1::LayerSpec& block) {
  const std::string name = block.name();
  const uint64_t hidden = model.hidden;
  AddVector(block, absl::StrCat(name, ".ln_1.weight"), hidden, 1);
  AddVector(block, absl::StrCat(name, ".ln_1.bias"), hidden, 0);
  AddMatrix(model, block, absl::StrCat(name, ".attn.c_attn.weight"), {hidden, 3 * hidden});
  AddVector(block, absl::StrCat(name, ".attn.c_attn.bias"), 3 * hidden, 0);
  AddMatrix(model, block, absl::StrCat(name, ".attn.c_proj.weight"), {hidden, hidden});
  AddVector(block, absl::StrCat(name, ".attn.c_proj.bias"), hidden, 0);
  AddVector(block, absl::StrCat(name, ".ln_2.weight"), hidden, 1);
  AddVector(block, absl::StrCat(name, ".ln_2.bias"), hidden, 0);
  AddMatrix(model, block, absl::StrCat(name, ".mlp.c_fc.weight"), {hidden, 4 * hidden});
  AddVector(block, absl::StrCat(name, ".mlp.c_fc.bias"), 4 * hidden, 0);
  AddMatrix(model, block, absl::StrCat(name, ".mlp.c_proj.weight"), {4 * hidden, hidden});
  AddVector(block, absl::StrCat(name, ".mlp.c_proj.bias"), hidden, 0);
}

}  // namespace

v1::JobSpec SmallModel::Spec() const {
  v1::JobSpec spec;
  spec.mutable_model()->mutable_init()->set_seed(11);
  spec.mutable_training()->set_seed(12);
  spec.mutable_training()->set_seq_len(seq);
  spec.mutable_training()->set_micro_batch_size(micro_batch_size);
  v1::OptimizerSpec& optimizer = *spec.mutable_optimizer();
  optimizer.set_name("adamw");
  optimizer.set_beta1(0.9);
  optimizer.set_beta2(0.95);
  optimizer.set_eps(1e-8);
  optimizer.set_weight_decay(0.1);
  return spec;
}

v1::ModelGraph SmallModel::Graph() const {
  v1::ModelGraph graph;
  graph.set_micro_batch_size(micro_batch_size);
  graph.set_seq_len(seq);
  v1::LayerSpec& embedding = *graph.add_layers();
  embedding = MakeLayer(*this, "transformer.embedding", v1::LAYER_KIND_TOKEN_EMBEDDING);
  AddMatrix(*this, embedding, "transformer.wte.weight", {vocab, hidden});
  AddMatrix(*this, embedding, "transformer.wpe.weight", {positions, hidden});
  for (uint64_t i = 0; i < blocks; ++i) {
    v1::LayerSpec& block = *graph.add_layers();
    block = MakeLayer(*this, absl::StrCat("transformer.h.", i), v1::LAYER_KIND_TRANSFORMER_BLOCK);
    AddBlockParameters(*this, block);
  }
  v1::LayerSpec& norm = *graph.add_layers();
  norm = MakeLayer(*this, "transformer.ln_f", v1::LAYER_KIND_LAYER_NORM);
  AddVector(norm, "transformer.ln_f.weight", hidden, 1);
  AddVector(norm, "transformer.ln_f.bias", hidden, 0);
  v1::LayerSpec& head = *graph.add_layers();
  head = MakeLayer(*this, "lm_head", v1::LAYER_KIND_LANGUAGE_MODEL_HEAD);
  AddMatrix(*this, head, tied ? "transformer.wte.weight" : "lm_head.weight", {vocab, hidden});
  if (tied) head.mutable_parameters(0)->set_tied_to_layer(0);
  for (const uint32_t layer : frozen) graph.mutable_layers(static_cast<int>(layer))->set_frozen(true);
  for (const auto& [from, to] : skips) {
    v1::SkipConnection& connection = *graph.add_skip_connections();
    connection.set_from_layer(from);
    connection.set_to_layer(to);
  }
  return graph;
}

}  // namespace stagecoach
