#ifndef STAGECOACH_COORDINATOR_JOBS_MICRO_BATCHES_H_
#define STAGECOACH_COORDINATOR_JOBS_MICRO_BATCHES_H_

#include <cstdint>
#include <vector>

namespace stagecoach {

// How the samples of one run of a program are divided.
struct MicroBatches {
  std::vector<uint32_t> samples;    // [num_micro_batches]; full ones first, then a ragged one, then empty ones
  std::vector<double> loss_weight;  // [num_micro_batches] its tokens / weight_tokens
};

// `num_samples` is at most num_micro_batches x micro_batch_size. `weight_samples` is what the weights are relative to:
// the step's samples in training, all validation samples in an evaluation of several runs. Every sample has the same
// number of tokens, so samples stand for tokens. Pure.
MicroBatches DivideSamples(uint64_t num_samples, uint64_t weight_samples, uint32_t num_micro_batches,
                           uint64_t micro_batch_size);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOBS_MICRO_BATCHES_H_
