#include "worker/model/layer_factory.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/model/language_model_head.h"
#include "worker/model/layer_norm_layer.h"
#include "worker/model/token_embedding_layer.h"
#include "worker/model/transformer_block.h"

namespace stagecoach {

absl::StatusOr<std::unique_ptr<Layer>> BuildLayer(const v1::LayerSpec& spec, const LayerContext& context) {
  switch (spec.kind()) {
    case v1::LAYER_KIND_TOKEN_EMBEDDING:
      return TokenEmbeddingLayer::Create(spec, context);
    case v1::LAYER_KIND_TRANSFORMER_BLOCK:
      return TransformerBlock::Create(spec, context);
    case v1::LAYER_KIND_LAYER_NORM:
      return LayerNormLayer::Create(spec, context);
    case v1::LAYER_KIND_LANGUAGE_MODEL_HEAD:
      return LanguageModelHead::Create(spec, context);
    default:
      return absl::InvalidArgumentError(absl::StrCat("layer ", spec.name(), " has kind ", static_cast<int>(spec.kind()),
                                                     ", which this worker does not know"));
  }
}

}  // namespace stagecoach
