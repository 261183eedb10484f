#ifndef STAGECOACH_COORDINATOR_PROGRAM_MEMORY_CURVE_H_
#define STAGECOACH_COORDINATOR_PROGRAM_MEMORY_CURVE_H_

#include <vector>

#include "coordinator/program/simulator.h"

namespace stagecoach {

// What a worker holds from this time on, in micro-batches on one full stage (1 / num_workers of the model).
struct MemoryPoint {
  double seconds = 0;
  // From the start of F to the end of W; of a stage without W to the end of I, and of one without either, as all are in
  // an evaluation, to the end of F. Where a stage recomputes: from the start to the end of F, and from the start of R
  // to the end of W; the inputs that stay between are not counted.
  double activations = 0;
  double pending_weight = 0;  // inputs of weight gradients: from the start of I to the end of W
};

// [num_workers][points], in time order, a point at every change. Points of one time follow one another as things
// happen: what is released by an action that ends then comes before what the next one takes. Their maxima are the
// timeline's peaks; a step ends at 0. Pure.
std::vector<std::vector<MemoryPoint>> MemoryCurves(const Timeline& timeline);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_MEMORY_CURVE_H_
