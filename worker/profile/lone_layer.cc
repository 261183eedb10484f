#include "worker/profile/lone_layer.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/philox.h"
#include "common/status_macros.h"
#include "worker/model/layer_factory.h"
#include "worker/model/layer_spec_reader.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kDeviceTimeout = absl::Minutes(10);
constexpr uint64_t kSeed = 1;
// Of gradients, small as they are in training, so that accumulators stay finite however many rounds there are.
constexpr double kGradientStd = 1e-3;

// As of plan.proto's sizes; beyond, products leave 64 bits.
constexpr uint64_t kMaxTokens = uint64_t{1} << 31;

// More than any device has.
constexpr double kMostBytes = 1e18;

double ParameterBytes(const v1::LayerSpec& layer, uint64_t element_bytes) {
  double bytes = 0;
  for (const v1::ParameterSpec& parameter : layer.parameters()) {
    double elements = 1;
    for (const uint64_t dim : parameter.shape()) elements *= static_cast<double>(dim);
    bytes += elements * static_cast<double>(element_bytes);
  }
  return bytes;
}

// The layer as the whole of a model.
v1::ModelGraph GraphOf(const v1::LayerCall& call) {
  v1::ModelGraph graph;
  *graph.add_layers() = call.layer();
  graph.mutable_layers(0)->clear_frozen();  // all of its calls are made
  for (v1::ParameterSpec& parameter : *graph.mutable_layers(0)->mutable_parameters()) parameter.clear_tied_to_layer();
  graph.set_micro_batch_size(call.micro_batch_size());
  graph.set_seq_len(call.seq_len());
  return graph;
}

// Without optimizer state: updates are not measured.
v1::JobSpec SpecWithoutMoments() {
  v1::JobSpec spec;
  spec.mutable_optimizer()->set_name("sgd");
  spec.mutable_optimizer()->set_lr(1);
  spec.mutable_model()->mutable_init()->set_seed(kSeed);
  return spec;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoneLayer>> LoneLayer::Create(Device& device, const v1::LayerCall& call,
                                                             uint64_t memory_bytes) {
  auto layer = absl::WrapUnique(new LoneLayer(device, call));
  STAGECOACH_RETURN_IF_ERROR(layer->CheckSizes(memory_bytes));
  STAGECOACH_RETURN_IF_ERROR(layer->Build());
  STAGECOACH_RETURN_IF_ERROR(layer->Allocate());
  STAGECOACH_RETURN_IF_ERROR(layer->FillInputs());
  return layer;
}

absl::Status LoneLayer::CheckSizes(uint64_t memory_bytes) {
  const uint64_t samples = call_.micro_batch_size();
  if (samples == 0 || call_.seq_len() == 0 || samples > kMaxTokens / call_.seq_len()) {
    return absl::InvalidArgumentError(absl::StrCat(samples, " samples of ", call_.seq_len(), " tokens"));
  }
  const uint64_t element_bytes = BytesOf(device_.capabilities().compute_dtype);
  STAGECOACH_ASSIGN_OR_RETURN(hidden_, ReadSize(call_.layer(), "hidden_size"));
  STAGECOACH_ASSIGN_OR_RETURN(bytes_, MemoryOfLayer(call_.layer(), samples, call_.seq_len(), element_bytes));
  const uint64_t activations = 2 * (bytes_.input + bytes_.output);
  const double needed = 2 * ParameterBytes(call_.layer(), element_bytes) +
                        static_cast<double>(bytes_.saved + bytes_.shared + bytes_.pending + bytes_.scratch) +
                        static_cast<double>(activations);
  needed_bytes_ = static_cast<uint64_t>(std::min(needed, kMostBytes));
  if (memory_bytes == 0 || needed <= static_cast<double>(memory_bytes)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("needs ", needed, " bytes, and the worker has ", memory_bytes, " for jobs"));
}

absl::Status LoneLayer::Build() {
  STAGECOACH_ASSIGN_OR_RETURN(stream_, device_.CreateStream());
  const v1::ModelGraph graph = GraphOf(call_);
  STAGECOACH_ASSIGN_OR_RETURN(
      state_, StageState::Create(device_, *stream_, SpecWithoutMoments(), graph, LayerIndex(0), LayerIndex(0)));
  const LayerContext context = {
      .device = device_, .index = LayerIndex(0), .parameters = state_->parameters(LayerIndex(0)), .seed = kSeed};
  STAGECOACH_ASSIGN_OR_RETURN(layer_, BuildLayer(call_.layer(), context));
  micro_batch_ = {.step = Step(1),
                  .index = MicroBatchIndex(0),
                  .first_sample = 0,
                  .samples = static_cast<int64_t>(call_.micro_batch_size()),
                  .training = true,
                  .loss_weight = 1,
                  .loss_scale = 1,
                  .stream = stream_.get()};
  return absl::OkStatus();
}

absl::Status LoneLayer::AllocateTensor(uint64_t bytes, std::unique_ptr<Memory>& memory) {
  STAGECOACH_ASSIGN_OR_RETURN(memory, device_.Allocate(bytes, MemoryKind::kDevice));
  return absl::OkStatus();
}

Tensor LoneLayer::Activation(const Memory& memory) const {
  return Tensor::Of(memory.data(), device_.capabilities().compute_dtype,
                    {micro_batch_.samples, static_cast<int64_t>(call_.seq_len()), hidden_});
}

absl::Status LoneLayer::Allocate() {
  const uint64_t token_bytes = call_.micro_batch_size() * call_.seq_len() * sizeof(int32_t);
  STAGECOACH_RETURN_IF_ERROR(AllocateTensor(bytes_.saved, saved_));
  STAGECOACH_RETURN_IF_ERROR(AllocateTensor(bytes_.shared, shared_));
  STAGECOACH_RETURN_IF_ERROR(AllocateTensor(bytes_.pending, pending_));
  STAGECOACH_RETURN_IF_ERROR(AllocateTensor(bytes_.scratch, scratch_));
  STAGECOACH_RETURN_IF_ERROR(AllocateTensor(bytes_.input, input_memory_));
  STAGECOACH_RETURN_IF_ERROR(AllocateTensor(bytes_.output, output_memory_));
  STAGECOACH_RETURN_IF_ERROR(AllocateTensor(is_head() ? token_bytes : 0, labels_memory_));
  STAGECOACH_RETURN_IF_ERROR(AllocateTensor(is_first() ? 0 : bytes_.input, input_gradient_memory_));
  STAGECOACH_RETURN_IF_ERROR(AllocateTensor(is_head() ? 0 : bytes_.output, output_gradient_memory_));
  memory_ = {.saved = {saved_->data(), bytes_.saved},
             .shared = {shared_->data(), bytes_.shared},
             .pending = {pending_->data(), bytes_.pending},
             .scratch = {scratch_->data(), bytes_.scratch}};
  const auto tokens = [&](const Memory& memory) {
    return Tensor::Of(memory.data(), v1::DTYPE_I32, {micro_batch_.samples, static_cast<int64_t>(call_.seq_len())});
  };
  input_ = is_first() ? tokens(*input_memory_) : Activation(*input_memory_);
  output_ = is_head() ? Tensor::Of(output_memory_->data(), v1::DTYPE_F64, {1}) : Activation(*output_memory_);
  if (is_head()) labels_ = tokens(*labels_memory_);
  if (!is_first()) input_gradient_ = Activation(*input_gradient_memory_);
  if (!is_head()) output_gradient_ = Activation(*output_gradient_memory_);
  return absl::OkStatus();
}

absl::Status LoneLayer::FillInputs() {
  ElementwiseOperations& elementwise = device_.operations().elementwise();
  if (is_first()) {
    STAGECOACH_RETURN_IF_ERROR(FillTokens(input_));
  } else {
    STAGECOACH_RETURN_IF_ERROR(elementwise.EnqueueNormal(*stream_, input_, 1, kSeed + 1));
  }
  if (is_head()) {
    STAGECOACH_RETURN_IF_ERROR(FillTokens(labels_));
  } else {
    STAGECOACH_RETURN_IF_ERROR(elementwise.EnqueueNormal(*stream_, output_gradient_, kGradientStd, kSeed + 2));
  }
  return WaitComplete();
}

absl::Status LoneLayer::FillTokens(const Tensor& tensor) {
  STAGECOACH_ASSIGN_OR_RETURN(const int64_t vocab, ReadSize(call_.layer(), "vocab_size"));
  const int64_t range = std::min<int64_t>(vocab, std::numeric_limits<int32_t>::max());
  std::vector<int32_t> tokens(static_cast<size_t>(tensor.num_elements()));
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>(MixSeed(kSeed, i) % static_cast<uint64_t>(range));
  }
  STAGECOACH_RETURN_IF_ERROR(device_.EnqueueCopy(*stream_, tensor.data, tokens.data(), tensor.bytes()));
  return WaitComplete();  // the copy reads a vector of this function
}

absl::Status LoneLayer::WaitComplete() {
  STAGECOACH_ASSIGN_OR_RETURN(const EventRef event, device_.Record(*stream_));
  return device_.WaitComplete(event, kDeviceTimeout);
}

absl::Status LoneLayer::Forward() {
  STAGECOACH_RETURN_IF_ERROR(layer_->Forward(micro_batch_, input_, labels_, output_, memory_));
  return WaitComplete();
}

absl::Status LoneLayer::BackwardInput() {
  STAGECOACH_RETURN_IF_ERROR(layer_->BackwardInput(micro_batch_, input_, output_gradient_, input_gradient_, memory_));
  return WaitComplete();
}

absl::Status LoneLayer::BackwardWeight() {
  STAGECOACH_RETURN_IF_ERROR(layer_->BackwardWeight(micro_batch_, input_, labels_, output_gradient_, memory_));
  return WaitComplete();
}

}  // namespace stagecoach
