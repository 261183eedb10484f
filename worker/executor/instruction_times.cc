#include "worker/executor/instruction_times.h"

#include <algorithm>
#include <cmath>

namespace stagecoach {
namespace {

constexpr double kFirstBucketSeconds = 1e-6;
constexpr double kBucketsPerDoubling = 2;

}  // namespace

void InstructionTimes::Record(size_t instruction, absl::Duration took) {
  const double ratio = std::max(absl::ToDoubleSeconds(took) / kFirstBucketSeconds, 1.0);
  const auto bucket = static_cast<size_t>(kBucketsPerDoubling * std::log2(ratio));
  Histogram& histogram = histograms_[instruction];
  ++histogram.counts[std::min(bucket, kNumBuckets - 1)];
  ++histogram.num_runs;
}

double InstructionTimes::UsualSeconds(size_t instruction) const {
  const Histogram& histogram = histograms_[instruction];
  if (histogram.num_runs < kMinRuns) return 0;
  uint32_t longer = 0;
  size_t bucket = kNumBuckets - 1;
  while (longer + histogram.counts[bucket] <= histogram.num_runs / 100) longer += histogram.counts[bucket--];
  return kFirstBucketSeconds * std::exp2(static_cast<double>(bucket + 1) / kBucketsPerDoubling);
}

}  // namespace stagecoach
