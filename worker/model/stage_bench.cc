#include "worker/model/stage_bench.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "common/frozen_layers.h"
#include "common/memory_layout.h"
#include "common/philox.h"

namespace stagecoach {
namespace {

constexpr std::byte kMargin{0xA5};
constexpr std::byte kScribble{0xFF};

template <typename T>
T Checked(absl::StatusOr<T> value) {
  EXPECT_TRUE(value.ok()) << value.status();
  if (!value.ok()) std::abort();
  return *std::move(value);
}

void ExpectOk(const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; }

}  // namespace

GuardedMemory::GuardedMemory(Device& device, uint64_t bytes)
    : memory_(Checked(device.Allocate(bytes + 2 * kTensorAlignment, MemoryKind::kDevice))), bytes_(bytes) {
  std::memset(memory_->data(), static_cast<int>(kMargin), memory_->bytes());
  Scribble();
}

std::span<std::byte> GuardedMemory::span() const { return {memory_->data() + kTensorAlignment, bytes_}; }

void GuardedMemory::Scribble() {
  if (bytes_ != 0) std::memset(span().data(), static_cast<int>(kScribble), bytes_);
}

bool GuardedMemory::MarginsAreIntact() const {
  for (size_t i = 0; i < kTensorAlignment; ++i) {
    if (memory_->data()[i] != kMargin || memory_->data()[kTensorAlignment + bytes_ + i] != kMargin) return false;
  }
  return true;
}

StageBench::StageBench(Device& device, const v1::JobSpec& spec, const v1::ModelGraph& graph,
                       std::vector<uint32_t> first_layers, const std::vector<uint32_t>& recomputed_layers)
    : device_(device), graph_(graph), stream_(Checked(device.CreateStream())) {
  for (size_t i = 0; i < first_layers.size(); ++i) {
    HeldStage held;
    held.first_layer = first_layers[i];
    held.last_layer =
        i + 1 < first_layers.size() ? first_layers[i + 1] - 1 : static_cast<uint32_t>(graph.layers_size()) - 1;
    const LayerIndex first(held.first_layer), last(held.last_layer);
    held.state = Checked(StageState::Create(device, *stream_, spec, graph_, first, last));
    StageExtent extent{held.first_layer, held.last_layer};
    for (const uint32_t layer : recomputed_layers) {
      if (first.value() <= layer && layer <= last.value()) extent.recomputed_layers.push_back(layer);
    }
    held.stage = Checked(LayeredStage::Create(device, spec, graph_, extent, *held.state));
    stages_.push_back(std::move(held));
  }
  v1::Plan plan;
  for (const HeldStage& held : stages_) {
    plan.add_stages()->set_first_layer(held.first_layer);
    plan.mutable_stages()->rbegin()->set_last_layer(held.last_layer);
  }
  skip_edges_ = SkipEdgesOf(graph_, plan, /*trains=*/true);
}

BenchBatch StageBench::MakeBatch(uint32_t index, uint64_t first_sample, int64_t samples) {
  BenchBatch batch;
  batch.micro_batch = {.step = Step(1),
                       .index = MicroBatchIndex(index),
                       .first_sample = first_sample,
                       .samples = samples,
                       .training = true,
                       .loss_weight = 0.25,
                       .loss_scale = 1,
                       .stream = stream_.get()};
  const uint64_t vocab = graph_.layers(0).sizes().at("vocab_size");
  for (uint64_t sample = first_sample; sample < first_sample + static_cast<uint64_t>(samples); ++sample) {
    for (uint64_t position = 0; position < graph_.seq_len(); ++position) {
      const uint64_t token = MixSeed(sample, position), label = MixSeed(sample, position + 1);
      batch.tokens.push_back(static_cast<int32_t>(token % vocab));
      batch.labels.push_back(label % 5 == 0 ? -100 : static_cast<int32_t>(label % vocab));
    }
  }
  return batch;
}

void StageBench::Add(BenchBatch batch) {
  HeldBatch held;
  held.batch = std::move(batch);
  held.loss = std::make_unique<GuardedMemory>(device_, sizeof(double));
  const auto samples = static_cast<uint64_t>(held.batch.micro_batch.samples);
  for (const HeldStage& stage : stages_) {
    const StageSlotBytes& bytes = stage.stage->slot_bytes();
    const uint64_t columns = stage.first_layer == 0 ? 1 : graph_.layers(0).sizes().at("hidden_size");
    const uint64_t element = stage.first_layer == 0 ? sizeof(int32_t) : BytesOf(device_.capabilities().compute_dtype);
    const uint64_t edge_bytes = samples * graph_.seq_len() * columns * element;
    held.stages.push_back({.saved = std::make_unique<GuardedMemory>(device_, bytes.saved),
                           .shared = std::make_unique<GuardedMemory>(device_, bytes.shared),
                           .pending = std::make_unique<GuardedMemory>(device_, bytes.pending),
                           .scratch = std::make_unique<GuardedMemory>(device_, bytes.scratch),
                           .recomputed = std::make_unique<GuardedMemory>(device_, bytes.recomputed),
                           .input = std::make_unique<GuardedMemory>(device_, edge_bytes),
                           .input_gradient = std::make_unique<GuardedMemory>(device_, edge_bytes)});
  }
  const uint64_t tensor_bytes = samples * graph_.seq_len() * graph_.layers(0).sizes().at("hidden_size") *
                                BytesOf(device_.capabilities().compute_dtype);
  for (const SkipEdge& edge : skip_edges_) {
    held.skips.push_back(std::make_unique<GuardedMemory>(device_, edge.connections.size() * tensor_bytes));
  }
  if (samples != 0 && stages_.front().first_layer == 0) {
    std::memcpy(held.stages.front().input->span().data(), held.batch.tokens.data(),
                held.batch.tokens.size() * sizeof(int32_t));
  }
  batches_.push_back(std::move(held));
}

StageBench::SkipEnds StageBench::SkipsOf(const HeldBatch& batch, size_t stage, bool are_gradients) const {
  SkipEnds ends;
  for (size_t i = 0; i < skip_edges_.size(); ++i) {
    const SkipEdge& edge = skip_edges_[i];
    if (edge.is_gradient != are_gradients) continue;
    const SkipTensors tensors{edge.connections, batch.skips[i]->span()};
    if (edge.to_stage == stage) ends.read.push_back(tensors);
    if (edge.from_stage == stage) ends.written.push_back(tensors);
  }
  return ends;
}

StageMemoryView StageBench::View(const StageSlots& slots, const SkipEnds& skips) {
  return {slots.saved->span(),      slots.shared->span(), slots.pending->span(), slots.scratch->span(),
          slots.recomputed->span(), skips.read,           skips.written};
}

void StageBench::ScribbleRead(const SkipEnds& skips) {
  for (const SkipTensors& edge : skips.read) {
    if (!edge.data.empty()) std::memset(edge.data.data(), static_cast<int>(kScribble), edge.data.size());
  }
}

Tensor StageBench::Labels(const HeldBatch& batch) const {
  return Tensor::Of(const_cast<int32_t*>(batch.batch.labels.data()), v1::DTYPE_I32,
                    {batch.batch.micro_batch.samples, static_cast<int64_t>(graph_.seq_len())});
}

Tensor StageBench::activation(size_t batch, size_t stage) const {
  const HeldBatch& held = batches_[batch];
  void* data = held.stages[stage].input->span().data();
  const int64_t samples = held.batch.micro_batch.samples;
  const auto seq = static_cast<int64_t>(graph_.seq_len());
  if (stages_[stage].first_layer == 0) return Tensor::Of(data, v1::DTYPE_I32, {samples, seq});
  const auto hidden = static_cast<int64_t>(graph_.layers(0).sizes().at("hidden_size"));
  return Tensor::Of(data, device_.capabilities().compute_dtype, {samples, seq, hidden});
}

Tensor StageBench::activation_gradient(size_t batch, size_t stage) const {
  if (stages_[stage].first_layer == 0) return {};
  Tensor tensor = activation(batch, stage);
  tensor.data = batches_[batch].stages[stage].input_gradient->span().data();
  return tensor;
}

void StageBench::Forward(size_t batch) {
  HeldBatch& held = batches_[batch];
  const Tensor loss = Tensor::Of(held.loss->span().data(), v1::DTYPE_F64, {1});
  for (size_t i = 0; i < stages_.size(); ++i) {
    StageSlots& slots = held.stages[i];
    for (GuardedMemory* slot : {slots.saved.get(), slots.shared.get(), slots.pending.get(), slots.scratch.get()}) {
      slot->Scribble();
    }
    const bool last = i + 1 == stages_.size();
    const SkipEnds skips = SkipsOf(held, i, /*are_gradients=*/false);
    ExpectOk(stages_[i].stage->Forward(held.batch.micro_batch, activation(batch, i), last ? Labels(held) : Tensor(),
                                       last ? loss : activation(batch, i + 1), View(slots, skips)));
    ScribbleRead(skips);
    // What recomputed layers left there, which nobody may read.
    slots.pending->Scribble();
    slots.recomputed->Scribble();
  }
}

void StageBench::BackwardInput(size_t batch) {
  HeldBatch& held = batches_[batch];
  for (size_t i = stages_.size(); i-- > 0;) {
    StageSlots& slots = held.stages[i];
    const StageBackward backward = BackwardOfStage(graph_, stages_[i].first_layer, stages_[i].last_layer);
    if (!backward.input) return;
    slots.scratch->Scribble();
    if (stages_[i].stage->slot_bytes().recomputed > 0) {
      ExpectOk(stages_[i].stage->Recompute(held.batch.micro_batch, View(slots)));
      slots.scratch->Scribble();
    }
    const bool last = i + 1 == stages_.size();
    const SkipEnds skips = SkipsOf(held, i, /*are_gradients=*/true);
    ExpectOk(stages_[i].stage->BackwardInput(
        held.batch.micro_batch, last ? Tensor() : activation_gradient(batch, i + 1),
        backward.sends_gradient ? activation_gradient(batch, i) : Tensor(), View(slots, skips)));
    ScribbleRead(skips);
    slots.saved->Scribble();
    slots.recomputed->Scribble();
    if (!backward.weight) slots.shared->Scribble();
    if (!last) held.stages[i + 1].input->Scribble();
  }
}

void StageBench::BackwardWeight(size_t batch) {
  HeldBatch& held = batches_[batch];
  for (size_t i = stages_.size(); i-- > 0;) {
    StageSlots& slots = held.stages[i];
    if (!BackwardOfStage(graph_, stages_[i].first_layer, stages_[i].last_layer).weight) continue;
    slots.scratch->Scribble();
    const bool last = i + 1 == stages_.size();
    ExpectOk(stages_[i].stage->BackwardWeight(held.batch.micro_batch, last ? Labels(held) : Tensor(), View(slots)));
    slots.shared->Scribble();
    slots.pending->Scribble();
  }
}

void StageBench::RunStep() {
  for (size_t i = 0; i < batches_.size(); ++i) {
    Forward(i);
    BackwardInput(i);
    BackwardWeight(i);
  }
  ReduceTies();
}

void StageBench::ReduceTies() {
  std::vector<StageState*> tied;
  for (HeldStage& held : stages_) {
    if (!held.state->tied_gradient().empty()) tied.push_back(held.state.get());
  }
  if (tied.size() == 1) ExpectOk(tied[0]->EnqueueReduceTie(*stream_, {}));
  if (tied.size() != 2) return;
  const Tensor lower = tied[0]->tied_gradient(), upper = tied[1]->tied_gradient();
  std::vector<std::byte> sent(lower.bytes());
  std::memcpy(sent.data(), lower.data, lower.bytes());
  Tensor received = lower;
  received.data = sent.data();
  ExpectOk(tied[0]->EnqueueReduceTie(*stream_, upper));
  ExpectOk(tied[1]->EnqueueReduceTie(*stream_, received));
}

void StageBench::ZeroGradients() {
  for (HeldStage& held : stages_) ExpectOk(held.state->EnqueueZeroGradients(*stream_));
}

double StageBench::loss_part(size_t batch) const {
  double loss = 0;
  std::memcpy(&loss, batches_[batch].loss->span().data(), sizeof(loss));
  return loss;
}

double StageBench::loss() const {
  double sum = 0;
  for (size_t i = 0; i < batches_.size(); ++i) sum += loss_part(i);
  return sum;
}

namespace {

// Calls visit(name, accumulator) for every tensor that a stage owns and that is trained.
template <typename Visitor>
void VisitGradients(const v1::ModelGraph& graph, StageState& state, Visitor visit) {
  for (int layer = 0; layer < graph.layers_size(); ++layer) {
    for (const Parameter& parameter : state.parameters(LayerIndex(static_cast<uint32_t>(layer)))) {
      const bool is_frozen = parameter.gradient.empty();
      if (!parameter.spec->has_tied_to_layer() && !is_frozen) visit(parameter.spec->name(), parameter.gradient);
    }
  }
}

}  // namespace

std::map<std::string, std::vector<double>> StageBench::Gradients() {
  std::map<std::string, std::vector<double>> gradients;
  for (HeldStage& held : stages_) {
    VisitGradients(graph_, *held.state,
                   [&](const std::string& name, const Tensor& gradient) { gradients[name] = ValuesOf(gradient); });
  }
  return gradients;
}

std::map<std::string, std::string> StageBench::GradientDigests() {
  std::map<std::string, std::string> digests;
  for (HeldStage& held : stages_) {
    VisitGradients(graph_, *held.state, [&](const std::string& name, const Tensor& gradient) {
      digests[name] = Checked(held.state->Digest(*stream_, gradient)).Hex();
    });
  }
  return digests;
}

std::map<std::string, std::vector<double>> StageBench::State() {
  std::map<std::string, std::vector<double>> values;
  for (HeldStage& held : stages_) {
    for (const StateTensor& tensor : held.state->tensors()) {
      if (tensor.owned) values[tensor.name] = ValuesOf(tensor.tensor);
    }
  }
  return values;
}

std::map<std::string, std::string> StageBench::StateDigests() {
  std::map<std::string, std::string> digests;
  for (HeldStage& held : stages_) {
    for (const StateTensor& tensor : held.state->tensors()) {
      if (tensor.owned) digests[tensor.name] = Checked(held.state->Digest(*stream_, tensor.tensor)).Hex();
    }
  }
  return digests;
}

void StageBench::ExpectMarginsIntact() const {
  for (const HeldBatch& batch : batches_) {
    EXPECT_TRUE(batch.loss->MarginsAreIntact());
    for (const auto& skip : batch.skips) EXPECT_TRUE(skip->MarginsAreIntact());
    for (const StageSlots& slots : batch.stages) {
      for (const GuardedMemory* memory :
           {slots.saved.get(), slots.shared.get(), slots.pending.get(), slots.scratch.get(), slots.recomputed.get(),
            slots.input.get(), slots.input_gradient.get()}) {
        EXPECT_TRUE(memory->MarginsAreIntact());
      }
    }
  }
}

std::vector<double> ValuesOf(const Tensor& tensor) {
  const auto count = static_cast<size_t>(tensor.num_elements());
  if (tensor.dtype == v1::DTYPE_F64) return {tensor.as<double>(), tensor.as<double>() + count};
  EXPECT_EQ(tensor.dtype, v1::DTYPE_F32);
  return {tensor.as<float>(), tensor.as<float>() + count};
}

void WriteValues(const Tensor& tensor, const std::vector<double>& values) {
  ASSERT_EQ(static_cast<size_t>(tensor.num_elements()), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (tensor.dtype == v1::DTYPE_F64) {
      tensor.as<double>()[i] = values[i];
    } else {
      tensor.as<float>()[i] = static_cast<float>(values[i]);
    }
  }
}

}  // namespace stagecoach
