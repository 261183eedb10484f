#ifndef STAGECOACH_WORKER_EXECUTOR_INSTRUCTION_TIMES_H_
#define STAGECOACH_WORKER_EXECUTOR_INSTRUCTION_TIMES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"

namespace stagecoach {

// How long each instruction of a program usually takes, waits included: a histogram per instruction whose buckets grow
// by half a power of two, from a microsecond to an hour. What is judged by it is measured in seconds and multiplied by
// four, so that no more precision is needed. Allocates nothing after construction. Not thread-safe.
class InstructionTimes {
 public:
  static constexpr uint32_t kMinRuns = 10;

  explicit InstructionTimes(size_t num_instructions) : histograms_(num_instructions) {}

  void Record(size_t instruction, absl::Duration took);
  // The 99th percentile, rounded up to the end of its bucket; 0: fewer than kMinRuns runs.
  double UsualSeconds(size_t instruction) const;

 private:
  static constexpr size_t kNumBuckets = 64;
  struct Histogram {
    uint32_t num_runs = 0;
    std::array<uint32_t, kNumBuckets> counts{};
  };

  std::vector<Histogram> histograms_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_EXECUTOR_INSTRUCTION_TIMES_H_
