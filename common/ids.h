#ifndef STAGECOACH_COMMON_IDS_H_
#define STAGECOACH_COMMON_IDS_H_

#include <compare>
#include <cstdint>
#include <ostream>
#include <string>
#include <utility>

namespace stagecoach {

// An integer or string with a meaning. Ids of different meaning do not mix; arithmetic is spelled out at the use.
template <typename Tag, typename Value>
class StrongId {
 public:
  constexpr StrongId() = default;
  constexpr explicit StrongId(Value value) : value_(std::move(value)) {}
  constexpr const Value& value() const { return value_; }
  auto operator<=>(const StrongId&) const = default;

  template <typename H>
  friend H AbslHashValue(H state, const StrongId& id) {
    return H::combine(std::move(state), id.value_);
  }
  friend std::ostream& operator<<(std::ostream& out, const StrongId& id) { return out << id.value_; }

 private:
  Value value_{};
};

using JobId = StrongId<struct JobIdTag, std::string>;
using WorkerId = StrongId<struct WorkerIdTag, std::string>;
using Epoch = StrongId<struct EpochTag, uint64_t>;              // of one job; each membership or plan change raises it
using Incarnation = StrongId<struct IncarnationTag, uint64_t>;  // one life of a worker
using CoordinatorTerm = StrongId<struct CoordinatorTermTag, uint64_t>;  // one life of the coordinator
using Step = StrongId<struct StepTag, uint64_t>;                        // completed steps; the first step is 1
using StageIndex = StrongId<struct StageIndexTag, uint32_t>;            // global: 0..P*V-1
using MicroBatchIndex = StrongId<struct MicroBatchIndexTag, uint32_t>;
using LayerIndex = StrongId<struct LayerIndexTag, uint32_t>;  // position in ModelGraph
using WorkerRank = StrongId<struct WorkerRankTag, uint32_t>;  // position in the placement of one epoch

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_IDS_H_
