#include "coordinator/spec/model_graph.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/frozen_layers.h"
#include "common/layer_slots.h"
#include "common/quoted.h"
#include "common/skip_connections.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

constexpr uint64_t kElementBytes = 4;                      // f32
constexpr uint64_t kMaxModelElements = uint64_t{1} << 48;  // 1 PiB of parameters
constexpr uint64_t kMaxLayers = uint64_t{1} << 20;
constexpr uint64_t kMaxTokensPerMicroBatch = uint64_t{1} << 31;
constexpr uint64_t kMlpWidth = 4;  // in hidden sizes
constexpr char kEmbeddingLayer[] = "transformer.wte";
constexpr char kFinalNormLayer[] = "transformer.ln_f";
constexpr char kHeadLayer[] = "lm_head";
constexpr char kTokenEmbedding[] = "transformer.wte.weight";

std::string BlockName(uint64_t block) { return absl::StrCat("transformer.h.", block); }

// Matrices and embeddings: normal, and they decay.
void AddMatrix(v1::LayerSpec& layer, absl::string_view name, uint64_t rows, uint64_t columns, double std) {
  v1::ParameterSpec& parameter = *layer.add_parameters();
  parameter.set_name(std::string(name));
  parameter.set_dtype(v1::DTYPE_F32);
  parameter.add_shape(rows);
  parameter.add_shape(columns);
  parameter.mutable_initializer()->set_normal_std(std);
  parameter.set_weight_decay(true);
}

// Biases and norms: constant, and they do not decay.
void AddVector(v1::LayerSpec& layer, absl::string_view name, uint64_t size, double value) {
  v1::ParameterSpec& parameter = *layer.add_parameters();
  parameter.set_name(std::string(name));
  parameter.set_dtype(v1::DTYPE_F32);
  parameter.add_shape(size);
  parameter.mutable_initializer()->set_constant(value);
}

void AddNorm(v1::LayerSpec& layer, absl::string_view name, uint64_t size) {
  AddVector(layer, absl::StrCat(name, ".weight"), size, 1);
  AddVector(layer, absl::StrCat(name, ".bias"), size, 0);
}

// Stored [in, out], as Hugging Face's Conv1D.
void AddLinear(v1::LayerSpec& layer, absl::string_view name, uint64_t in, uint64_t out, double std) {
  AddMatrix(layer, absl::StrCat(name, ".weight"), in, out, std);
  AddVector(layer, absl::StrCat(name, ".bias"), out, 0);
}

double MatrixElements(const v1::LayerSpec& layer) {
  double elements = 0;
  for (const v1::ParameterSpec& parameter : layer.parameters()) {
    if (parameter.shape_size() == 2) {
      elements += static_cast<double>(parameter.shape(0)) * static_cast<double>(parameter.shape(1));
    }
  }
  return elements;
}

// Builds the layers of GPT-2 in order. The costs count what GEMMs and attention do; a norm or an embedding moves memory
// and counts next to nothing. One use.
class Gpt2GraphBuilder {
 public:
  explicit Gpt2GraphBuilder(const v1::JobSpec& spec)
      : config_(spec.model().config()),
        std_(spec.model().init().std()),
        samples_(static_cast<double>(spec.training().micro_batch_size())),
        seq_(static_cast<double>(spec.training().seq_len())),
        tokens_(samples_ * seq_),
        hidden_(static_cast<double>(config_.hidden_size())) {
    graph_.set_micro_batch_size(spec.training().micro_batch_size());
    graph_.set_seq_len(spec.training().seq_len());
  }

  v1::ModelGraph Build() {
    AddEmbedding();
    for (uint64_t block = 0; block < config_.num_hidden_layers(); ++block) AddBlock(block);
    AddFinalNorm();
    AddHead();
    return std::move(graph_);
  }

 private:
  v1::LayerSpec& AddLayer(absl::string_view name, v1::LayerKind kind) {
    v1::LayerSpec& layer = *graph_.add_layers();
    layer.set_name(std::string(name));
    layer.set_kind(kind);
    (*layer.mutable_sizes())["hidden_size"] = config_.hidden_size();
    return layer;
  }

  void AddEmbedding() {
    v1::LayerSpec& layer = AddLayer(kEmbeddingLayer, v1::LAYER_KIND_TOKEN_EMBEDDING);
    (*layer.mutable_sizes())["vocab_size"] = config_.vocab_size();
    (*layer.mutable_sizes())["max_position_embeddings"] = config_.max_position_embeddings();
    (*layer.mutable_scalars())["embd_pdrop"] = config_.embd_pdrop();
    AddMatrix(layer, kTokenEmbedding, config_.vocab_size(), config_.hidden_size(), std_);
    AddMatrix(layer, "transformer.wpe.weight", config_.max_position_embeddings(), config_.hidden_size(), std_);
    layer.mutable_cost()->set_forward_flops(tokens_ * hidden_);
    layer.mutable_cost()->set_backward_weight_flops(2 * tokens_ * hidden_);
  }

  void AddBlock(uint64_t block) {
    const std::string name = BlockName(block);
    const uint64_t hidden = config_.hidden_size();
    const uint64_t wide = kMlpWidth * hidden;
    // Each of the 2 L residual additions adds variance; scaled so, the sum keeps its size whatever the depth.
    const double residual_std = std_ / std::sqrt(2 * static_cast<double>(config_.num_hidden_layers()));
    v1::LayerSpec& layer = AddLayer(name, v1::LAYER_KIND_TRANSFORMER_BLOCK);
    (*layer.mutable_sizes())["num_attention_heads"] = config_.num_attention_heads();
    (*layer.mutable_sizes())["intermediate_size"] = wide;
    (*layer.mutable_scalars())["layer_norm_epsilon"] = config_.layer_norm_epsilon();
    (*layer.mutable_scalars())["attn_pdrop"] = config_.attn_pdrop();
    (*layer.mutable_scalars())["resid_pdrop"] = config_.resid_pdrop();
    AddNorm(layer, absl::StrCat(name, ".ln_1"), hidden);
    AddLinear(layer, absl::StrCat(name, ".attn.c_attn"), hidden, 3 * hidden, std_);
    AddLinear(layer, absl::StrCat(name, ".attn.c_proj"), hidden, hidden, residual_std);
    AddNorm(layer, absl::StrCat(name, ".ln_2"), hidden);
    AddLinear(layer, absl::StrCat(name, ".mlp.c_fc"), hidden, wide, std_);
    AddLinear(layer, absl::StrCat(name, ".mlp.c_proj"), wide, hidden, residual_std);
    SetBlockCost(layer);
  }

  void SetBlockCost(v1::LayerSpec& layer) const {
    const double matrices = 2 * MatrixElements(layer) * tokens_;
    // Scores and their product with the values, [seq, seq] x hidden each, of which causality leaves a half.
    const double attention = 2 * (2 * seq_ * seq_ * hidden_) * samples_ / 2;
    layer.mutable_cost()->set_forward_flops(matrices + attention);
    // Four such products, and the scores once more.
    layer.mutable_cost()->set_backward_input_flops(matrices + 2.5 * attention);
    layer.mutable_cost()->set_backward_weight_flops(matrices);
  }

  void AddFinalNorm() {
    v1::LayerSpec& layer = AddLayer(kFinalNormLayer, v1::LAYER_KIND_LAYER_NORM);
    (*layer.mutable_scalars())["layer_norm_epsilon"] = config_.layer_norm_epsilon();
    AddNorm(layer, kFinalNormLayer, config_.hidden_size());
    layer.mutable_cost()->set_forward_flops(8 * tokens_ * hidden_);
    layer.mutable_cost()->set_backward_input_flops(8 * tokens_ * hidden_);
    layer.mutable_cost()->set_backward_weight_flops(4 * tokens_ * hidden_);
  }

  void AddHead() {
    v1::LayerSpec& layer = AddLayer(kHeadLayer, v1::LAYER_KIND_LANGUAGE_MODEL_HEAD);
    (*layer.mutable_sizes())["vocab_size"] = config_.vocab_size();
    const bool tied = config_.tie_word_embeddings();
    AddMatrix(layer, tied ? kTokenEmbedding : "lm_head.weight", config_.vocab_size(), config_.hidden_size(), std_);
    if (tied) layer.mutable_parameters(0)->set_tied_to_layer(0);
    const double logits = 2 * MatrixElements(layer) * tokens_;
    // Forward goes on to the gradient of its input, so that nothing is left for I; W makes the logits again.
    layer.mutable_cost()->set_forward_flops(2 * logits);
    layer.mutable_cost()->set_backward_weight_flops(2 * logits);
  }

  const v1::ModelConfig& config_;
  const double std_, samples_, seq_, tokens_, hidden_;
  v1::ModelGraph graph_;
};

absl::Status CheckSize(absl::string_view name, uint64_t size, uint64_t max) {
  if (size >= 1 && size <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " ", size, " is out of range: must be from 1 to ", max));
}

// Bounds that keep every product below within 64 bits; a resolved specification has smaller sizes still.
absl::Status CheckSizes(const v1::JobSpec& spec) {
  const v1::ModelConfig& config = spec.model().config();
  constexpr uint64_t kMaxSize = uint64_t{1} << 28;
  STAGECOACH_RETURN_IF_ERROR(CheckSize("num_hidden_layers", config.num_hidden_layers(), kMaxLayers));
  STAGECOACH_RETURN_IF_ERROR(CheckSize("hidden_size", config.hidden_size(), kMaxSize));
  STAGECOACH_RETURN_IF_ERROR(CheckSize("num_attention_heads", config.num_attention_heads(), config.hidden_size()));
  STAGECOACH_RETURN_IF_ERROR(CheckSize("vocab_size", config.vocab_size(), kMaxSize));
  STAGECOACH_RETURN_IF_ERROR(CheckSize("max_position_embeddings", config.max_position_embeddings(), kMaxSize));
  STAGECOACH_RETURN_IF_ERROR(
      CheckSize("micro_batch_size", spec.training().micro_batch_size(), kMaxTokensPerMicroBatch));
  STAGECOACH_RETURN_IF_ERROR(CheckSize("seq_len", spec.training().seq_len(), kMaxTokensPerMicroBatch));
  if (config.hidden_size() % config.num_attention_heads() != 0) {
    return absl::InvalidArgumentError(absl::StrCat("hidden_size ", config.hidden_size(),
                                                   " is not a multiple of num_attention_heads ",
                                                   config.num_attention_heads()));
  }
  if (spec.training().micro_batch_size() * spec.training().seq_len() > kMaxTokensPerMicroBatch) {
    return absl::InvalidArgumentError(absl::StrCat("micro_batch_size ", spec.training().micro_batch_size(),
                                                   " x seq_len ", spec.training().seq_len(), " is more than ",
                                                   kMaxTokensPerMicroBatch, " tokens in a micro-batch"));
  }
  return absl::OkStatus();
}

absl::Status CheckTotal(const v1::JobSpec& spec) {
  const v1::ModelConfig& config = spec.model().config();
  const uint64_t hidden = config.hidden_size();
  const double block = 12.0 * static_cast<double>(hidden) * static_cast<double>(hidden);
  const double embeddings = static_cast<double>(hidden) * (2.0 * static_cast<double>(config.vocab_size()) +
                                                           static_cast<double>(config.max_position_embeddings()));
  const double elements = static_cast<double>(config.num_hidden_layers()) * block + embeddings;
  if (elements <= static_cast<double>(kMaxModelElements)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the model has ", elements,
                                                 " parameters, more than any memory holds: "
                                                 "make model.config's sizes smaller"));
}

absl::Status SetMemory(v1::ModelGraph& graph) {
  for (int i = 0; i < graph.layers_size(); ++i) {
    STAGECOACH_ASSIGN_OR_RETURN(const LayerSlots slots, SlotsOfLayer(graph, static_cast<uint32_t>(i), kElementBytes));
    v1::LayerCost& cost = *graph.mutable_layers(i)->mutable_cost();
    cost.set_saved_bytes(slots.saved);
    cost.set_shared_bytes(slots.shared);
    cost.set_pending_bytes(slots.pending);
    cost.set_scratch_bytes(slots.scratch);
    cost.set_input_bytes(slots.regions.input);
    cost.set_output_bytes(slots.regions.output);
  }
  return absl::OkStatus();
}

// Both in the model's order.
absl::Status MarkFrozen(const v1::ModelSpec& model, v1::ModelGraph& graph) {
  int next = 0;
  for (const std::string& name : model.frozen_layers()) {
    while (next < graph.layers_size() && graph.layers(next).name() != name) ++next;
    if (next == graph.layers_size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("model.frozen_layers: ", Quoted(name), " is no layer of the model, or not in its order"));
    }
    graph.mutable_layers(next++)->set_frozen(true);
  }
  if (LowestTrainedLayer(graph) < static_cast<uint32_t>(graph.layers_size())) return absl::OkStatus();
  return absl::InvalidArgumentError("model.frozen_layers: every layer is frozen, and nothing is left to train");
}

absl::StatusOr<uint32_t> FindLayer(const std::map<std::string, uint32_t>& layer_of_name, const std::string& name) {
  const auto found = layer_of_name.find(name);
  if (found != layer_of_name.end()) return found->second;
  return absl::InvalidArgumentError(
      absl::StrCat("model.skip_connections: ", Quoted(name), " is no layer of the model"));
}

absl::Status AddSkipConnections(const v1::ModelSpec& model, v1::ModelGraph& graph) {
  if (model.skip_connections().empty()) return absl::OkStatus();
  std::map<std::string, uint32_t> layer_of_name;
  for (int i = 0; i < graph.layers_size(); ++i) layer_of_name[graph.layers(i).name()] = static_cast<uint32_t>(i);
  for (const v1::SkipConnectionSpec& spec : model.skip_connections()) {
    v1::SkipConnection& connection = *graph.add_skip_connections();
    STAGECOACH_ASSIGN_OR_RETURN(const uint32_t from, FindLayer(layer_of_name, spec.from()));
    STAGECOACH_ASSIGN_OR_RETURN(const uint32_t to, FindLayer(layer_of_name, spec.to()));
    connection.set_from_layer(from);
    connection.set_to_layer(to);
  }
  return WithContext(CheckSkipConnections(graph), "model.skip_connections");
}

// Takes out what nobody needs.
void PruneFlops(v1::ModelGraph& graph) {
  for (int i = 0; i < graph.layers_size(); ++i) {
    v1::LayerSpec& layer = *graph.mutable_layers(i);
    v1::LayerCost& cost = *layer.mutable_cost();
    const LayerRole role = RoleOf(graph, static_cast<uint32_t>(i));
    if (layer.frozen()) cost.set_backward_weight_flops(0);
    if (!HasBackwardInput(layer, role)) cost.set_backward_input_flops(0);
    // A half of it makes the gradient of its input.
    const bool is_head = layer.kind() == v1::LAYER_KIND_LANGUAGE_MODEL_HEAD;
    if (is_head && role == LayerRole::kLowestTrained) cost.set_forward_flops(cost.forward_flops() / 2);
  }
}

}  // namespace

absl::StatusOr<v1::ModelGraph> BuildModelGraph(const v1::JobSpec& spec) {
  if (spec.model().architecture() != "gpt2") {
    return absl::InvalidArgumentError(
        absl::StrCat("model.architecture ", Quoted(spec.model().architecture()), " is not known; use gpt2"));
  }
  STAGECOACH_RETURN_IF_ERROR(CheckSizes(spec));
  STAGECOACH_RETURN_IF_ERROR(CheckTotal(spec));
  v1::ModelGraph graph = Gpt2GraphBuilder(spec).Build();
  STAGECOACH_RETURN_IF_ERROR(MarkFrozen(spec.model(), graph));
  PruneFlops(graph);
  STAGECOACH_RETURN_IF_ERROR(SetMemory(graph));
  STAGECOACH_RETURN_IF_ERROR(AddSkipConnections(spec.model(), graph));
  return graph;
}

std::vector<std::string> LayerNames(const v1::ModelConfig& config) {
  std::vector<std::string> names = {kEmbeddingLayer};
  for (uint64_t block = 0; block < std::min(config.num_hidden_layers(), kMaxLayers); ++block) {
    names.push_back(BlockName(block));
  }
  names.insert(names.end(), {kFinalNormLayer, kHeadLayer});
  return names;
}

}  // namespace stagecoach
