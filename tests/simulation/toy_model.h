#ifndef STAGECOACH_TESTS_SIMULATION_TOY_MODEL_H_
#define STAGECOACH_TESTS_SIMULATION_TOY_MODEL_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/plan.pb.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach::simulation {

// Training on hashes instead of tensors. A layer is one number; every result depends on every number that the real
// arithmetic would depend on, in its order, so that a step that is left out, applied twice, or made of gradients of
// another step is seen in all that comes after it.

// What layers hand over along skip connections, by connection: tensors, or their gradients.
using Skips = std::map<uint32_t, uint64_t>;

uint64_t InitialValue(uint64_t seed, uint32_t layer);
uint64_t LoadedSamples(uint64_t first_sample, uint32_t micro_batch, uint32_t samples);
uint64_t ForwardLayer(uint64_t input, uint64_t value);
uint64_t BackwardLayer(uint64_t output_gradient, uint64_t value);
// Of layers from `first_layer` on: what each gets, then the output of the last. Takes from `skips` what is added, and
// leaves there what starts.
std::vector<uint64_t> ForwardLayers(const v1::ModelGraph& graph, uint32_t first_layer,
                                    const std::vector<uint64_t>& values, uint64_t input, Skips& skips);
// Likewise down again: the gradient of the first one's input, then of each one's output.
std::vector<uint64_t> BackwardLayers(const v1::ModelGraph& graph, uint32_t first_layer,
                                     const std::vector<uint64_t>& values, uint64_t output_gradient, Skips& skips);
uint64_t LossGradient(uint64_t output, double loss_weight);
uint64_t AddWeightGradient(uint64_t accumulator, uint64_t input, uint64_t output_gradient);
double LossOf(uint64_t output);
double SquaredNormOf(uint64_t gradient);
bool IsNonFinite(uint64_t gradient);
// By an APPLY; a SKIP leaves the value alone.
uint64_t UpdatedValue(uint64_t value, uint64_t gradient, const v1::CommitRecord& record);

// As a layer's parameters are reported: a parameter and one moment of each.
std::vector<v1::TensorDigestReport> ReportsOf(const v1::LayerSpec& layer, uint64_t value, uint64_t num_updates);
// Of one layer, which has any number of parameters.
std::vector<v1::SquaredNorm> NormsOf(const v1::LayerSpec& layer, uint64_t gradient);

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_TOY_MODEL_H_
