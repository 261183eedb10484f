#ifndef STAGECOACH_COORDINATOR_PLAN_RECOMPUTATION_H_
#define STAGECOACH_COORDINATOR_PLAN_RECOMPUTATION_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace stagecoach {

// A layer that may be recomputed: what that takes, and the bytes that need not be kept.
struct RecomputeOption {
  uint64_t ticks = 0;  // of time, any unit
  uint64_t bytes = 0;
};
struct Recomputation {
  uint64_t ticks = 0;
  std::vector<uint32_t> chosen;  // indices of options, ascending
};

// The options that free at least `needed_bytes` in the least time; nothing when all together free less. Equal calls
// choose equal options. A knapsack: the Pareto frontier of (time, bytes) grows option by option (Nemhauser and Ullmann,
// "Discrete Dynamic Programming and Capital Allocation", 1969). Exact while the frontier has at most
// kMaxRecomputeFrontier points, as it always has for options of which all but a few are equal: k equal ones and j
// others make at most (k + 1) x 2^j. A larger one is thinned, which costs at most (number of options /
// kMaxRecomputeFrontier) of the time of all options together, and never a byte.
inline constexpr uint64_t kMaxRecomputeFrontier = 4096;
std::optional<Recomputation> CheapestRecomputation(std::span<const RecomputeOption> options, uint64_t needed_bytes);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PLAN_RECOMPUTATION_H_
