#ifndef STAGECOACH_WORKER_MODEL_LAYER_SPEC_READER_H_
#define STAGECOACH_WORKER_MODEL_LAYER_SPEC_READER_H_

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stagecoach/v1/plan.pb.h"
#include "worker/model/layer.h"

namespace stagecoach {

// Reads one LayerSpec; INVALID_ARGUMENT, with the layer's name, for what is missing or does not fit.

absl::StatusOr<int64_t> ReadSize(const v1::LayerSpec& spec, const std::string& key);               // at least 1
absl::StatusOr<double> ReadDropoutProbability(const v1::LayerSpec& spec, const std::string& key);  // in [0, 1)
absl::StatusOr<double> ReadLayerNormEpsilon(const v1::LayerSpec& spec);                            // at least 0

// That the parameters are as many as `shapes`, and of these shapes.
absl::Status CheckParameters(const v1::LayerSpec& spec, std::span<const Parameter> parameters,
                             std::initializer_list<std::vector<int64_t>> shapes);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_MODEL_LAYER_SPEC_READER_H_
