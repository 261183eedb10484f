#ifndef STAGECOACH_WORKER_MODEL_LAYER_DROPOUT_H_
#define STAGECOACH_WORKER_MODEL_LAYER_DROPOUT_H_

#include <cstdint>

#include "common/ids.h"
#include "common/philox.h"
#include "worker/device/tensor_operations.h"
#include "worker/model/layer.h"

namespace stagecoach {

// Makes the Dropout of each operation of one layer: keyed by (job's seed, step, layer, operation) here and by (global
// sample index, element) in the device, never by stage, micro-batch or time. Immutable.
class LayerDropout {
 public:
  LayerDropout(uint64_t seed, LayerIndex layer) : seed_(seed), layer_(layer) {}

  // `operation` counts the dropouts of one layer. None in an evaluation.
  Dropout Of(const MicroBatch& micro_batch, double probability, uint64_t operation) const {
    if (!micro_batch.training || probability == 0) return {};
    const uint64_t of_step = MixSeed(seed_, micro_batch.step.value());
    const uint64_t of_layer = MixSeed(of_step, layer_.value());
    return {.probability = probability, .seed = MixSeed(of_layer, operation), .first_sample = micro_batch.first_sample};
  }

 private:
  const uint64_t seed_;
  const LayerIndex layer_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_MODEL_LAYER_DROPOUT_H_
