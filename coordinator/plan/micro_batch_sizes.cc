#include "coordinator/plan/micro_batch_sizes.h"

#include <algorithm>
#include <utility>

namespace stagecoach {
namespace {

constexpr size_t kMaxSizes = 16;
// As the specification, the tags of transfers and the graph allow.
constexpr uint64_t kMaxSize = 65'535;
constexpr uint64_t kMaxMicroBatches = 65'535;
constexpr uint64_t kMaxTokens = uint64_t{1} << 31;
// More make no step noticeably shorter, and take long to plan.
constexpr uint64_t kEnoughMicroBatches = 1024;

// Ascending.
std::vector<uint64_t> DivisorsOf(uint64_t number) {
  std::vector<uint64_t> divisors;
  for (uint64_t low = 1; low * low <= number; ++low) {
    if (number % low != 0) continue;
    divisors.push_back(low);
    if (low * low != number) divisors.push_back(number / low);
  }
  std::sort(divisors.begin(), divisors.end());
  return divisors;
}

// Both ends stay.
std::vector<uint64_t> Thinned(const std::vector<uint64_t>& sizes) {
  if (sizes.size() <= kMaxSizes) return sizes;
  std::vector<uint64_t> thinned;
  for (size_t i = 0; i < kMaxSizes; ++i) thinned.push_back(sizes[i * (sizes.size() - 1) / (kMaxSizes - 1)]);
  return thinned;
}

}  // namespace

bool ChoosesMicroBatchSize(const v1::JobSpec& spec) { return spec.training().micro_batch_size() == 0; }

std::vector<uint64_t> MicroBatchSizes(const v1::JobSpec& spec, size_t num_workers) {
  const uint64_t replicas = std::max<uint64_t>(1, spec.parallelism().data_parallel_degree());
  const uint64_t samples = std::max<uint64_t>(1, spec.training().global_batch_size() / replicas);
  const uint32_t degree = spec.parallelism().pipeline_parallel_degree();
  const uint64_t workers = std::max<uint64_t>(1, degree != 0 ? degree : num_workers);
  const uint64_t seq_len = std::max<uint64_t>(1, spec.training().seq_len());
  const auto sizes_with = [&](uint64_t least, uint64_t most) {
    std::vector<uint64_t> sizes;
    for (const uint64_t size : DivisorsOf(samples)) {
      const uint64_t num_micro_batches = samples / size;
      const bool is_legal = size <= kMaxSize && size <= kMaxTokens / seq_len;
      if (is_legal && least <= num_micro_batches && num_micro_batches <= most) sizes.push_back(size);
    }
    return Thinned(sizes);
  };
  // The first is what is wanted; samples may be too few for so many workers, or have no such divisor.
  for (const auto& [least, most] : {std::pair(workers, kEnoughMicroBatches), std::pair(workers, kMaxMicroBatches),
                                    std::pair(uint64_t{1}, kMaxMicroBatches)}) {
    if (std::vector<uint64_t> sizes = sizes_with(least, most); !sizes.empty()) return sizes;
  }
  return {};
}

std::vector<uint64_t> SizesToMeasure(const std::vector<uint64_t>& sizes) {
  if (sizes.size() <= 3) return sizes;
  return {sizes.front(), sizes[sizes.size() / 2], sizes.back()};
}

v1::JobSpec WithMicroBatchSize(const v1::JobSpec& spec, uint64_t micro_batch_size) {
  v1::JobSpec sized = spec;
  sized.mutable_training()->set_micro_batch_size(micro_batch_size);
  return sized;
}

}  // namespace stagecoach
