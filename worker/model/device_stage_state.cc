#include "worker/model/device_stage_state.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/philox.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kDeviceTimeout = absl::Minutes(10);

uint64_t NumElements(const v1::ParameterSpec& spec) {
  uint64_t product = 1;
  for (const uint64_t dim : spec.shape()) product *= dim;
  return product;
}

// A tensor of the shape that `spec` has, at `*next`, which moves behind it.
Tensor TakeTensor(const v1::ParameterSpec& spec, v1::DType dtype, std::byte** next) {
  Tensor tensor;
  tensor.data = *next;
  tensor.dtype = dtype;
  for (const uint64_t dim : spec.shape()) tensor.dims[static_cast<size_t>(tensor.rank++)] = static_cast<int64_t>(dim);
  *next += tensor.bytes();
  return tensor;
}

absl::Status CheckShape(const v1::ParameterSpec& spec) {
  // Keeps the bytes of all parameters far from overflow.
  constexpr double kMaxElements = 1ULL << 48;
  double elements = 1;
  for (const uint64_t dim : spec.shape()) elements *= static_cast<double>(dim);
  if (spec.shape_size() > 0 && spec.shape_size() <= Tensor::kMaxRank && elements >= 1 && elements <= kMaxElements) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("parameter ", spec.name(), " must have 1 to ", Tensor::kMaxRank,
                                                 " dimensions, none of them zero, and at most 2^48 elements"));
}

bool HasLaterUse(const v1::ModelGraph& graph, uint32_t owner, const std::string& name) {
  for (const v1::LayerSpec& layer : graph.layers()) {
    for (const v1::ParameterSpec& spec : layer.parameters()) {
      if (spec.name() == name && spec.has_tied_to_layer() && spec.tied_to_layer() == owner) return true;
    }
  }
  return false;
}

// Of a tensor's initial values; a hash that never changes, or a restart would begin elsewhere.
uint64_t NameHash(const std::string& name) { return XXH3_64bits(name.data(), name.size()); }

}  // namespace

absl::StatusOr<std::unique_ptr<StageState>> StageState::Create(Device& device, Stream& stream, const v1::JobSpec& spec,
                                                               const v1::ModelGraph& graph, LayerIndex first_layer,
                                                               LayerIndex last_layer) {
  return DeviceStageState::Create(device, stream, spec, graph, first_layer, last_layer);
}

absl::Status CheckMayStartFrom(const StageState& state, Step step, uint64_t num_updates) {
  if (state.applied_step() != Step(0)) {
    return absl::FailedPreconditionError(absl::StrCat("the stage is at step ", state.applied_step().value(),
                                                      " and cannot start from step ", step.value()));
  }
  if (num_updates <= step.value()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(num_updates, " updates in ", step.value(), " steps"));
}

absl::StatusOr<std::unique_ptr<DeviceStageState>> DeviceStageState::Create(Device& device, Stream& stream,
                                                                           const v1::JobSpec& spec,
                                                                           const v1::ModelGraph& graph,
                                                                           LayerIndex first_layer,
                                                                           LayerIndex last_layer) {
  if (first_layer > last_layer || last_layer.value() >= static_cast<uint32_t>(graph.layers_size())) {
    return absl::InvalidArgumentError(absl::StrCat("a stage of layers ", first_layer.value(), " to ",
                                                   last_layer.value(), " in a model of ", graph.layers_size(),
                                                   " layers"));
  }
  auto state = absl::WrapUnique(new DeviceStageState(device, graph, first_layer, last_layer));
  STAGECOACH_ASSIGN_OR_RETURN(state->optimizer_, Optimizer::Create(spec.optimizer()));
  STAGECOACH_RETURN_IF_ERROR(state->CollectTensors());
  STAGECOACH_RETURN_IF_ERROR(state->Allocate());
  state->MakeParameters();
  state->ListTensors();
  STAGECOACH_RETURN_IF_ERROR(state->Initialize(stream, spec.model().init().seed()));
  return state;
}

DeviceStageState::DeviceStageState(Device& device, const v1::ModelGraph& graph, LayerIndex first_layer,
                                   LayerIndex last_layer)
    : device_(device), graph_(graph), first_layer_(first_layer), last_layer_(last_layer) {}

absl::Status DeviceStageState::CollectTensors() {
  for (uint32_t layer = first_layer_.value(); layer <= last_layer_.value(); ++layer) {
    uses_.emplace_back();
    for (const v1::ParameterSpec& spec : graph_.layers(static_cast<int>(layer)).parameters()) {
      STAGECOACH_RETURN_IF_ERROR(CheckShape(spec));
      STAGECOACH_RETURN_IF_ERROR(CollectUse(layer, spec));
    }
  }
  return absl::OkStatus();
}

absl::Status DeviceStageState::CollectUse(uint32_t layer, const v1::ParameterSpec& spec) {
  const bool is_frozen = graph_.layers(static_cast<int>(layer)).frozen();
  const auto found = std::find_if(held_.begin(), held_.end(),
                                  [&](const HeldTensor& held) { return held.spec->name() == spec.name(); });
  if (found != held_.end()) {
    if (!spec.has_tied_to_layer() || !found->tied || NumElements(*found->spec) != NumElements(spec)) {
      return absl::InvalidArgumentError(absl::StrCat("layer ", layer, " has a tensor ", spec.name(),
                                                     " that another layer has too, without being tied to it by "
                                                     "tied_to_layer and an equal shape"));
    }
    if (found->trained == is_frozen) {
      return absl::InvalidArgumentError(absl::StrCat("layer ", layer, " and another use ", spec.name(),
                                                     ", and one of them is frozen: freeze both or neither"));
    }
    uses_.back().push_back({static_cast<size_t>(found - held_.begin()), &spec, /*later=*/true});
    return absl::OkStatus();
  }
  HeldTensor held;
  held.spec = &spec;
  held.owned = !spec.has_tied_to_layer();
  held.tied = spec.has_tied_to_layer() || HasLaterUse(graph_, layer, spec.name());
  held.trained = !is_frozen;
  const bool adds_gradients = held.tied && held.trained;
  if (adds_gradients && tied_ != SIZE_MAX) {
    return absl::InvalidArgumentError(absl::StrCat("both ", held_[tied_].spec->name(), " and ", spec.name(),
                                                   " are tied; a stage can hold one tied tensor"));
  }
  if (adds_gradients) tied_ = held_.size();
  uses_.back().push_back({held_.size(), &spec, /*later=*/false});
  held_.push_back(std::move(held));
  return absl::OkStatus();
}

template <typename Visit>
void DeviceStageState::ForEachTrainedUse(Visit visit) const {
  for (const std::vector<Use>& uses : uses_) {
    for (const Use& use : uses) {
      if (held_[use.held].trained) visit(use);
    }
  }
}

absl::Status DeviceStageState::Allocate() {
  const v1::DType dtype = device_.capabilities().compute_dtype;
  const size_t num_moments = optimizer_->moment_names().size();
  for (const HeldTensor& held : held_) {
    const uint64_t bytes = NumElements(*held.spec) * BytesOf(dtype);
    bytes_.parameters += bytes;
    if (held.trained) bytes_.optimizer += bytes * num_moments;
  }
  ForEachTrainedUse([&](const Use& use) { bytes_.gradients += NumElements(*use.spec) * BytesOf(dtype); });
  STAGECOACH_ASSIGN_OR_RETURN(values_, device_.Allocate(bytes_.parameters, MemoryKind::kDevice));
  STAGECOACH_ASSIGN_OR_RETURN(gradients_, device_.Allocate(bytes_.gradients, MemoryKind::kDevice));
  STAGECOACH_ASSIGN_OR_RETURN(moments_, device_.Allocate(bytes_.optimizer, MemoryKind::kDevice));
  all_gradients_ = Tensor::Of(gradients_->data(), dtype, {static_cast<int64_t>(bytes_.gradients / BytesOf(dtype))});

  std::byte* value = values_->data();
  std::byte* gradient = gradients_->data();
  std::byte* moment = moments_->data();
  for (HeldTensor& held : held_) {
    held.value = TakeTensor(*held.spec, dtype, &value);
    for (size_t i = 0; held.trained && i < num_moments; ++i)
      held.moments.push_back(TakeTensor(*held.spec, dtype, &moment));
  }
  ForEachTrainedUse([&](const Use& use) {
    HeldTensor& held = held_[use.held];
    (use.later ? held.later_gradient : held.gradient) = TakeTensor(*use.spec, dtype, &gradient);
  });

  const auto num_held = static_cast<int64_t>(held_.size());
  STAGECOACH_ASSIGN_OR_RETURN(report_memory_,
                              device_.Allocate((2 + 2 * held_.size()) * sizeof(uint64_t), MemoryKind::kPinnedHost));
  std::byte* report = report_memory_->data();
  digest_ = Tensor::Of(report, v1::DTYPE_U64, {2});
  squared_norms_ = Tensor::Of(report + digest_.bytes(), v1::DTYPE_F64, {num_held});
  num_non_finite_ = Tensor::Of(report + digest_.bytes() + squared_norms_.bytes(), v1::DTYPE_I64, {num_held});
  return absl::OkStatus();
}

void DeviceStageState::MakeParameters() {
  for (const std::vector<Use>& uses : uses_) {
    parameters_.emplace_back();
    for (const Use& use : uses) {
      const HeldTensor& held = held_[use.held];
      parameters_.back().push_back(
          {.spec = use.spec, .value = held.value, .gradient = use.later ? held.later_gradient : held.gradient});
    }
  }
}

void DeviceStageState::ListTensors() {
  for (const HeldTensor& held : held_) {
    tensors_.push_back({held.spec->name(), held.value, /*optimizer_state=*/false, held.owned});
    for (size_t i = 0; i < held.moments.size(); ++i) {
      tensors_.push_back({absl::StrCat(held.spec->name(), ".", optimizer_->moment_names()[i]), held.moments[i],
                          /*optimizer_state=*/true, held.owned});
    }
    if (held.owned && held.trained) norms_.push_back({held.spec->name(), 0});
  }
  std::sort(tensors_.begin(), tensors_.end(), [](const StateTensor& a, const StateTensor& b) {
    return std::pair(a.optimizer_state, absl::string_view(a.name)) <
           std::pair(b.optimizer_state, absl::string_view(b.name));
  });
}

absl::Status DeviceStageState::Initialize(Stream& stream, uint64_t seed) {
  ElementwiseOperations& elementwise = device_.operations().elementwise();
  for (const HeldTensor& held : held_) {
    const v1::Initializer& initializer = held.spec->initializer();
    switch (initializer.kind_case()) {
      case v1::Initializer::kNormalStd:
        STAGECOACH_RETURN_IF_ERROR(elementwise.EnqueueNormal(stream, held.value, initializer.normal_std(),
                                                             MixSeed(seed, NameHash(held.spec->name()))));
        break;
      case v1::Initializer::kConstant:
        STAGECOACH_RETURN_IF_ERROR(elementwise.EnqueueFill(stream, held.value, initializer.constant()));
        break;
      default:
        return absl::InvalidArgumentError(absl::StrCat("parameter ", held.spec->name(), " has no initializer"));
    }
  }
  return WaitComplete(stream);
}

absl::Status DeviceStageState::WaitComplete(Stream& stream) {
  STAGECOACH_ASSIGN_OR_RETURN(const EventRef event, device_.Record(stream));
  return device_.WaitComplete(event, kDeviceTimeout);
}

std::span<const Parameter> DeviceStageState::parameters(LayerIndex layer) const {
  if (layer < first_layer_ || layer > last_layer_) return {};
  return parameters_[layer.value() - first_layer_.value()];
}

absl::Status DeviceStageState::EnqueueZeroGradients(Stream& stream) {
  if (bytes_.gradients == 0) return stream.CheckNotCancelled();  // all is frozen
  return device_.operations().elementwise().EnqueueFill(stream, all_gradients_, 0);
}

Tensor DeviceStageState::tied_gradient() const { return tied_ == SIZE_MAX ? Tensor() : held_[tied_].gradient; }

absl::Status DeviceStageState::EnqueueReduceTie(Stream& stream, const Tensor& other) {
  if (tied_ == SIZE_MAX) return absl::FailedPreconditionError("no tensor of this stage is tied");
  const HeldTensor& held = held_[tied_];
  if (other.empty() == held.later_gradient.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tied tensor ", held.spec->name(),
                     other.empty() ? ": the other use is on another stage, so its accumulator must be received"
                                   : ": both uses are on this stage, so no other accumulator can be added"));
  }
  if (!other.empty() && other.bytes() != held.gradient.bytes()) {
    return absl::InvalidArgumentError(absl::StrCat("tied tensor ", held.spec->name(), ": received ",
                                                   other.ShapeString(), ", need ", held.gradient.ShapeString()));
  }
  // A received accumulator may come as bare bytes: it has the shape of this one.
  Tensor addend = held.gradient;
  addend.data = other.empty() ? held.later_gradient.data : other.data;
  const Tensor& owners_use = held.owned ? held.gradient : addend;
  const Tensor& later_use = held.owned ? addend : held.gradient;
  return device_.operations().elementwise().EnqueueAdd(stream, owners_use, later_use, held.gradient);
}

absl::StatusOr<StageState::GradientReport> DeviceStageState::ReportGradients(Stream& stream) {
  UpdateOperations& update = device_.operations().update();
  for (size_t i = 0; i < held_.size(); ++i) {
    if (!held_[i].owned || !held_[i].trained) continue;
    const auto row = static_cast<int64_t>(i);
    STAGECOACH_RETURN_IF_ERROR(update.EnqueueSquaredNorm(stream, held_[i].gradient, squared_norms_.Slice(row, 1),
                                                         num_non_finite_.Slice(row, 1)));
  }
  STAGECOACH_RETURN_IF_ERROR(WaitComplete(stream));
  GradientReport report;
  size_t reported = 0;
  for (size_t i = 0; i < held_.size(); ++i) {
    if (!held_[i].owned || !held_[i].trained) continue;
    norms_[reported++].squared_norm = squared_norms_.as<double>()[i];
    report.num_non_finite += static_cast<uint64_t>(num_non_finite_.as<int64_t>()[i]);
  }
  report.norms = norms_;
  return report;
}

absl::Status DeviceStageState::Update(Stream& stream, const v1::CommitRecord& record) {
  const Step step(record.step());
  if (step == applied_step_) return absl::OkStatus();
  if (step.value() != applied_step_.value() + 1) {
    return absl::FailedPreconditionError(absl::StrCat("the stage is at step ", applied_step_.value(),
                                                      " and cannot take the verdict on step ", step.value()));
  }
  if (record.verdict() == v1::VERDICT_APPLY) {
    STAGECOACH_RETURN_IF_ERROR(EnqueueUpdates(stream, record));
    num_updates_ = record.num_updates();
  } else if (record.verdict() != v1::VERDICT_SKIP) {
    return absl::InvalidArgumentError(absl::StrCat("the commit record of step ", step.value(), " has no verdict"));
  }
  applied_step_ = step;
  return absl::OkStatus();
}

absl::Status DeviceStageState::StartFrom(Step step, uint64_t num_updates) {
  STAGECOACH_RETURN_IF_ERROR(CheckMayStartFrom(*this, step, num_updates));
  if (next_update_ != 0) return absl::FailedPreconditionError("an update of the stage has begun");
  applied_step_ = step;
  num_updates_ = num_updates;
  return absl::OkStatus();
}

absl::Status DeviceStageState::EnqueueUpdates(Stream& stream, const v1::CommitRecord& record) {
  if (record.num_updates() != num_updates_ + 1) {
    return absl::FailedPreconditionError(absl::StrCat("the stage has had ", num_updates_,
                                                      " updates; the commit record of step ", record.step(),
                                                      " is for update ", record.num_updates()));
  }
  for (; next_update_ < held_.size(); ++next_update_) {
    const HeldTensor& held = held_[next_update_];
    if (!held.trained) continue;
    const OptimizedTensor tensor = {.value = held.value,
                                    .gradient = held.gradient,
                                    .moments = held.moments,
                                    .weight_decay = held.spec->weight_decay()};
    STAGECOACH_RETURN_IF_ERROR(optimizer_->EnqueueUpdate(device_.operations().update(), stream, tensor, record));
  }
  next_update_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<TensorDigest> DeviceStageState::Digest(Stream& stream, const Tensor& tensor) {
  STAGECOACH_RETURN_IF_ERROR(device_.operations().update().EnqueueDigest(stream, tensor, digest_));
  STAGECOACH_RETURN_IF_ERROR(WaitComplete(stream));
  return TensorDigest{{digest_.as<uint64_t>()[0], digest_.as<uint64_t>()[1]}};
}

}  // namespace stagecoach
