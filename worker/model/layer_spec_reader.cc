#include "worker/model/layer_spec_reader.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

absl::Status Unusable(const v1::LayerSpec& spec, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("layer ", spec.name(), ": ", what));
}

absl::StatusOr<double> ReadScalar(const v1::LayerSpec& spec, const std::string& key) {
  const auto found = spec.scalars().find(key);
  if (found == spec.scalars().end()) return Unusable(spec, absl::StrCat("its LayerSpec has no scalar ", key));
  return found->second;
}

bool HasShape(const Tensor& tensor, const std::vector<int64_t>& shape) {
  if (static_cast<size_t>(tensor.rank) != shape.size()) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (tensor.dims[i] != shape[i]) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<int64_t> ReadSize(const v1::LayerSpec& spec, const std::string& key) {
  const auto found = spec.sizes().find(key);
  if (found == spec.sizes().end()) return Unusable(spec, absl::StrCat("its LayerSpec has no size ", key));
  if (found->second == 0 || found->second > INT32_MAX) {
    return Unusable(spec, absl::StrCat("its size ", key, " is ", found->second, ", must be from 1 to ", INT32_MAX));
  }
  return static_cast<int64_t>(found->second);
}

absl::StatusOr<double> ReadDropoutProbability(const v1::LayerSpec& spec, const std::string& key) {
  STAGECOACH_ASSIGN_OR_RETURN(const double probability, ReadScalar(spec, key));
  if (probability >= 0 && probability < 1) return probability;
  return Unusable(spec, absl::StrCat("its scalar ", key, " is ", probability, ", must be in [0, 1)"));
}

absl::StatusOr<double> ReadLayerNormEpsilon(const v1::LayerSpec& spec) {
  STAGECOACH_ASSIGN_OR_RETURN(const double epsilon, ReadScalar(spec, "layer_norm_epsilon"));
  if (epsilon >= 0) return epsilon;
  return Unusable(spec, absl::StrCat("its scalar layer_norm_epsilon is ", epsilon, ", must be at least 0"));
}

absl::Status CheckParameters(const v1::LayerSpec& spec, std::span<const Parameter> parameters,
                             std::initializer_list<std::vector<int64_t>> shapes) {
  if (parameters.size() != shapes.size()) {
    return Unusable(spec, absl::StrCat("it has ", parameters.size(), " parameters, its kind has ", shapes.size()));
  }
  for (size_t i = 0; i < shapes.size(); ++i) {
    const std::vector<int64_t>& shape = shapes.begin()[i];
    for (const Tensor& tensor : {parameters[i].value, parameters[i].gradient}) {
      const bool is_frozen = parameters[i].gradient.empty();
      if (HasShape(tensor, shape) || (is_frozen && tensor.empty())) continue;
      return Unusable(spec, absl::StrCat("its parameter ", i, " is ", tensor.ShapeString(), ", must be [",
                                         absl::StrJoin(shape, ", "), "]"));
    }
  }
  return absl::OkStatus();
}

}  // namespace stagecoach
