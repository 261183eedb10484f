#include "common/layer_memory.h"

#include <algorithm>
#include <initializer_list>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/frozen_layers.h"
#include "common/layer_slots.h"
#include "common/memory_layout.h"
#include "common/skip_connections.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

constexpr int64_t kHeadTileElements = int64_t{1} << 24;
constexpr int64_t kHeadTileMultiple = 64;
// So that sums of a few regions, and of the layers of a model, cannot overflow either.
constexpr uint64_t kMaxRegionBytes = uint64_t{1} << 52;

// As many of `available` as keep `available` x `other` near the tile's size.
int64_t TileExtent(int64_t available, int64_t other) {
  const int64_t fitting = kHeadTileElements / std::max<int64_t>(other, 1) / kHeadTileMultiple * kHeadTileMultiple;
  return std::min(available, std::max(fitting, kHeadTileMultiple));
}

// Adds up tensors of one region. Remembers an overflow instead of returning it, so that a region reads as its layout.
class RegionBytes {
 public:
  void Add(std::initializer_list<uint64_t> factors) {
    const uint64_t bytes = Product(factors);
    if (bytes <= kMaxRegionBytes) total_ += AlignUp(bytes);
    if (bytes > kMaxRegionBytes || total_ > kMaxRegionBytes) overflow_ = true;
  }
  void AddUnaligned(std::initializer_list<uint64_t> factors) {
    total_ = Product(factors);
    if (total_ > kMaxRegionBytes) overflow_ = true;
  }
  uint64_t total() const { return total_; }
  bool overflow() const { return overflow_; }

 private:
  static uint64_t Product(std::initializer_list<uint64_t> factors) {
    uint64_t product = 1;
    bool overflow = false;
    for (const uint64_t factor : factors) {
      // A later factor of zero must not hide an overflow: sizes are at least 1, samples may be 0.
      overflow |= __builtin_mul_overflow(product, factor, &product);
    }
    return overflow ? UINT64_MAX : product;
  }

  uint64_t total_ = 0;
  bool overflow_ = false;
};

struct Regions {
  RegionBytes saved, shared, pending, scratch, input, output;
};

struct BatchShape {
  uint64_t samples, seq, element_bytes;
};

absl::StatusOr<uint64_t> SizeOf(const v1::LayerSpec& spec, const std::string& key) {
  const auto found = spec.sizes().find(key);
  if (found == spec.sizes().end() || found->second == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("layer ", spec.name(), " needs a size ", key, " of at least 1 in its LayerSpec"));
  }
  return found->second;
}

// saved, shared, pending: nothing; the stage holds tokens and output gradient
// scratch  W: output gradient through the dropout [samples, seq, hidden]
absl::Status AddTokenEmbedding(const v1::LayerSpec& spec, const BatchShape& batch, Regions& regions) {
  STAGECOACH_ASSIGN_OR_RETURN(const uint64_t hidden, SizeOf(spec, "hidden_size"));
  regions.scratch.Add({batch.samples, batch.seq, hidden, batch.element_bytes});
  regions.input.AddUnaligned({batch.samples, batch.seq, sizeof(int32_t)});
  regions.output.AddUnaligned({batch.samples, batch.seq, hidden, batch.element_bytes});
  return absl::OkStatus();
}

// shared   ln_1 mean and 1/std          [rows, 2]
//          ln_1 output                  [rows, hidden]
//          attention output             [rows, hidden]
//          residual after attention     [rows, hidden]
//          ln_2 mean and 1/std          [rows, 2]
//          ln_2 output                  [rows, hidden]
//          gelu output                  [rows, intermediate]
// saved    q, k, v                      [rows, 3 hidden]
//          log-sum-exp of the scores    [samples, heads, seq]
//          mlp.c_fc output, before gelu [rows, intermediate]
// pending  d mlp.c_fc output            [rows, intermediate]
//          d ln_2 output                [rows, hidden]
//          d attn.c_proj output         [rows, hidden]
//          d q, k, v                    [rows, 3 hidden]
//          d ln_1 output                [rows, hidden]
// scratch  I: d mlp.c_proj output, then d attention output; W: d mlp.c_proj output, made again from the output
//          gradient, which is cheaper than holding it [rows, hidden]
absl::Status AddTransformerBlock(const v1::LayerSpec& spec, const BatchShape& batch, Regions& regions) {
  STAGECOACH_ASSIGN_OR_RETURN(const uint64_t hidden, SizeOf(spec, "hidden_size"));
  STAGECOACH_ASSIGN_OR_RETURN(const uint64_t heads, SizeOf(spec, "num_attention_heads"));
  STAGECOACH_ASSIGN_OR_RETURN(const uint64_t intermediate, SizeOf(spec, "intermediate_size"));
  const auto [samples, seq, element] = batch;
  regions.shared.Add({samples, seq, 2, element});
  for (int i = 0; i < 3; ++i) regions.shared.Add({samples, seq, hidden, element});
  regions.shared.Add({samples, seq, 2, element});
  regions.shared.Add({samples, seq, hidden, element});
  regions.shared.Add({samples, seq, intermediate, element});

  regions.saved.Add({samples, seq, 3, hidden, element});
  regions.saved.Add({samples, heads, seq, element});
  regions.saved.Add({samples, seq, intermediate, element});

  regions.pending.Add({samples, seq, intermediate, element});
  for (int i = 0; i < 2; ++i) regions.pending.Add({samples, seq, hidden, element});
  regions.pending.Add({samples, seq, 3, hidden, element});
  regions.pending.Add({samples, seq, hidden, element});

  regions.scratch.Add({samples, seq, hidden, element});
  regions.input.AddUnaligned({samples, seq, hidden, element});
  regions.output.AddUnaligned({samples, seq, hidden, element});
  return absl::OkStatus();
}

// shared   mean and 1/std [rows, 2]
absl::Status AddLayerNorm(const v1::LayerSpec& spec, const BatchShape& batch, Regions& regions) {
  STAGECOACH_ASSIGN_OR_RETURN(const uint64_t hidden, SizeOf(spec, "hidden_size"));
  regions.shared.Add({batch.samples, batch.seq, 2, batch.element_bytes});
  regions.input.AddUnaligned({batch.samples, batch.seq, hidden, batch.element_bytes});
  regions.output.AddUnaligned({batch.samples, batch.seq, hidden, batch.element_bytes});
  return absl::OkStatus();
}

// saved    input gradient [rows, hidden]
// shared   log-sum-exp of the logits [rows]
// scratch  F: loss of each row, f64 [rows]; logits of HeadForwardRows rows [.., vocabulary]
//          W: logits of HeadWeightColumns columns [rows, ..]
absl::Status AddLanguageModelHead(const v1::LayerSpec& spec, const BatchShape& batch, Regions& regions) {
  STAGECOACH_ASSIGN_OR_RETURN(const uint64_t hidden, SizeOf(spec, "hidden_size"));
  STAGECOACH_ASSIGN_OR_RETURN(const uint64_t vocab, SizeOf(spec, "vocab_size"));
  const auto [samples, seq, element] = batch;
  regions.saved.Add({samples, seq, hidden, element});
  regions.shared.Add({samples, seq, element});
  regions.input.AddUnaligned({samples, seq, hidden, element});
  regions.output.AddUnaligned({sizeof(double)});

  uint64_t logits = 0;
  if (__builtin_mul_overflow(samples, seq, &logits) || __builtin_mul_overflow(logits, vocab, &logits) ||
      logits > kMaxRegionBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("layer ", spec.name(), ": ", samples, " samples x ", seq, " tokens x ", vocab,
                     " words of vocabulary are more than any memory; make one of them smaller"));
  }
  const auto rows = static_cast<int64_t>(samples * seq);
  RegionBytes forward, weight;
  forward.Add({samples, seq, sizeof(double)});
  forward.Add({static_cast<uint64_t>(HeadForwardRows(rows, static_cast<int64_t>(vocab))), vocab, element});
  // Fewer rows may take more columns, but never more elements than this.
  const uint64_t tile = std::max<uint64_t>(kHeadTileElements, static_cast<uint64_t>(rows) * kHeadTileMultiple);
  weight.Add({std::min(logits, tile), element});
  regions.scratch = forward.total() > weight.total() ? forward : weight;
  return absl::OkStatus();
}

absl::Status AddLayer(const v1::LayerSpec& spec, const BatchShape& batch, Regions& regions) {
  switch (spec.kind()) {
    case v1::LAYER_KIND_TOKEN_EMBEDDING:
      return AddTokenEmbedding(spec, batch, regions);
    case v1::LAYER_KIND_TRANSFORMER_BLOCK:
      return AddTransformerBlock(spec, batch, regions);
    case v1::LAYER_KIND_LAYER_NORM:
      return AddLayerNorm(spec, batch, regions);
    case v1::LAYER_KIND_LANGUAGE_MODEL_HEAD:
      return AddLanguageModelHead(spec, batch, regions);
    default:
      return absl::InvalidArgumentError(absl::StrCat("layer ", spec.name(), " has kind ", static_cast<int>(spec.kind()),
                                                     ", which is not known here"));
  }
}

absl::Status CheckExtent(const v1::ModelGraph& graph, const StageExtent& extent) {
  if (extent.first_layer > extent.last_layer || extent.last_layer >= static_cast<uint32_t>(graph.layers_size())) {
    return absl::InvalidArgumentError(absl::StrCat("a stage of layers ", extent.first_layer, " to ", extent.last_layer,
                                                   " in a model of ", graph.layers_size(), " layers"));
  }
  uint64_t next = extent.first_layer;
  for (const uint32_t layer : extent.recomputed_layers) {
    const bool is_here = layer >= next && layer <= extent.last_layer;
    if (!is_here || graph.layers(static_cast<int>(layer)).kind() != v1::LAYER_KIND_TRANSFORMER_BLOCK) {
      return absl::InvalidArgumentError(absl::StrCat("a stage of layers ", extent.first_layer, " to ",
                                                     extent.last_layer, " cannot recompute layer ", layer,
                                                     ": it recomputes blocks of its own, in order"));
    }
    if (RoleOf(graph, layer) == LayerRole::kForwardOnly) {
      return absl::InvalidArgumentError(absl::StrCat("layer ", layer, " is below every layer that is trained, and ",
                                                     "keeps nothing that could be recomputed"));
    }
    next = uint64_t{layer} + 1;
  }
  return absl::OkStatus();
}

}  // namespace

int64_t HeadForwardRows(int64_t rows, int64_t vocab_size) { return TileExtent(rows, vocab_size); }

int64_t HeadWeightColumns(int64_t rows, int64_t vocab_size) { return TileExtent(vocab_size, rows); }

absl::StatusOr<LayerMemoryBytes> MemoryOfLayer(const v1::LayerSpec& spec, uint64_t samples, uint64_t seq_len,
                                               uint64_t element_bytes) {
  Regions regions;
  STAGECOACH_RETURN_IF_ERROR(AddLayer(spec, {samples, seq_len, element_bytes}, regions));
  for (const RegionBytes* region :
       {&regions.saved, &regions.shared, &regions.pending, &regions.scratch, &regions.input, &regions.output}) {
    if (region->overflow()) {
      return absl::InvalidArgumentError(absl::StrCat("layer ", spec.name(), ": ", samples, " samples of ", seq_len,
                                                     " tokens need more bytes than any memory has; make the "
                                                     "micro-batch, the sequence or the layer smaller"));
    }
  }
  return LayerMemoryBytes{.saved = regions.saved.total(),
                          .shared = regions.shared.total(),
                          .pending = regions.pending.total(),
                          .scratch = regions.scratch.total(),
                          .input = regions.input.total(),
                          .output = regions.output.total()};
}

bool StageExtent::Recomputes(uint32_t layer) const {
  return std::binary_search(recomputed_layers.begin(), recomputed_layers.end(), layer);
}

absl::StatusOr<StageMemoryBytes> MemoryOfStage(const v1::ModelGraph& graph, const StageExtent& extent,
                                               uint64_t element_bytes) {
  STAGECOACH_RETURN_IF_ERROR(CheckExtent(graph, extent));
  STAGECOACH_RETURN_IF_ERROR(CheckSkipConnections(graph));
  StageMemoryBytes stage;
  for (uint32_t layer = extent.first_layer; layer <= extent.last_layer; ++layer) {
    STAGECOACH_ASSIGN_OR_RETURN(const LayerSlots slots, SlotsOfLayer(graph, layer, element_bytes));
    const bool is_recomputed = extent.Recomputes(layer);
    (is_recomputed ? stage.recomputed : stage.saved) += slots.saved;
    (is_recomputed ? stage.remade : stage.shared) += slots.shared;
    stage.shared += slots.input;
    stage.pending += slots.output_gradient + slots.pending;
    stage.scratch = std::max(stage.scratch, slots.scratch);
  }
  stage.pending += stage.remade;
  for (const uint32_t connection : SkipConnectionsWithin(graph, extent.first_layer, extent.last_layer)) {
    const uint32_t from = graph.skip_connections(static_cast<int>(connection)).from_layer();
    STAGECOACH_ASSIGN_OR_RETURN(const LayerSlots slots, SlotsOfLayer(graph, from, element_bytes));
    stage.held += AlignUp(slots.regions.output);
  }
  stage.scratch += stage.held;
  return stage;
}

}  // namespace stagecoach
