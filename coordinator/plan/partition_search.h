#ifndef STAGECOACH_COORDINATOR_PLAN_PARTITION_SEARCH_H_
#define STAGECOACH_COORDINATOR_PLAN_PARTITION_SEARCH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "coordinator/plan/worker_loads.h"

namespace stagecoach {

inline constexpr uint32_t kMaxSearchedChunks = 4;

// Dynamic programming over workers. In a loop every chunk has layers of its own, chosen before the first worker, which
// are eaten up from their start, worker by worker; in a V all layers are eaten up from both ends. A position says which
// layers are left; a move gives the next worker one stage of every chunk. Exact. Of the positions, up to
// num_layers^(2 num_chunks - 1) for each worker in a loop and num_layers^2 in a V, those are looked at from which the
// workers left can do the layers left in the time allowed, which starts at what no partition can beat. Not thread-safe.
class PartitionSearch {
 public:
  enum class Outcome { kFound, kImpossible, kTooMuchWork };

  // At most kMaxSearchedChunks chunks. `max_moves`: after how many in one pass it gives up. `loads` outlives it.
  PartitionSearch(const WorkerLoads& loads, uint64_t max_moves);

  // The best partition: see BalancedPartition.
  Outcome Find();
  // Whether there is one.
  Outcome FindAny() { return Reach(loads_.MostSeconds()); }
  // After Find.
  const std::vector<std::vector<LayerSpan>>& spans() const { return spans_; }  // [num_workers][num_chunks], if found
  double lower_bound_seconds() const { return lower_bound_; }  // no worker of any partition is done earlier

 private:
  struct Position {
    std::array<uint16_t, kMaxSearchedChunks> first = {};  // [chunk]; of a V, [0] alone
    std::array<uint16_t, kMaxSearchedChunks> end = {};
    bool operator==(const Position&) const = default;
    template <typename H>
    friend H AbslHashValue(H hash, const Position& position) {
      return H::combine(std::move(hash), position.first, position.end);
    }
  };
  // The positions before a worker.
  struct Level {
    std::vector<Position> positions;
    absl::flat_hash_map<Position, uint32_t> index;

    void Add(const Position& position) {
      if (index.try_emplace(position, static_cast<uint32_t>(positions.size())).second) positions.push_back(position);
    }
  };
  struct Move {
    uint32_t rank = 0;
    uint64_t least_ticks = 0;  // or the workers behind have more left than they can do
    Position to;
    std::array<LayerSpan, kMaxSearchedChunks> spans = {};  // [num_chunks]
  };

  size_t num_tapes() const { return is_v_ ? 1 : loads_.num_chunks(); }
  void AddStarts(Position position, uint32_t chunk);
  uint64_t TicksLeft(const Position& position) const;
  bool MayEnd(uint32_t rank, const Position& position, double seconds) const;
  // All moves of one worker that take at most `seconds` and after which the others may.
  template <typename Visit>
  void ForEachMove(uint32_t rank, const Position& from, double seconds, const Visit& visit);
  uint32_t LeastLength(uint32_t chunk, uint64_t ticks, const Move& move) const;
  template <typename Visit>
  void Choose(uint32_t chunk, uint64_t ticks, double seconds, Move& move, const Visit& visit);
  double WorkerSeconds(const Move& move) const;
  double StageSeconds(const Move& move) const;  // of its slowest stage, nothing recomputed
  uint64_t CutBytes(const Move& move) const;    // behind its stages
  std::span<const LayerSpan> SpansOf(const Move& move) const {
    return std::span(move.spans).first(loads_.num_chunks());
  }

  Outcome Reach(double seconds);
  template <typename Value>
  using Values = std::vector<std::vector<Value>>;  // by level and position: of the best way from there to the end
  template <typename Value, typename Cost, typename Join>
  Values<Value> BackUp(double seconds, const Cost& cost, const Join& join);
  void ChooseBest(double seconds);
  void Follow(const Values<uint64_t>& bytes);

  const WorkerLoads& loads_;
  const bool is_v_;
  const uint64_t max_moves_;
  uint64_t num_moves_ = 0;
  std::vector<double> speed_from_;  // of workers [rank, end) together
  std::vector<Level> levels_;       // [num_workers + 1]
  double lower_bound_ = 0;
  double slowest_worker_ = 0;
  double slowest_stage_ = 0;
  std::vector<std::vector<LayerSpan>> spans_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PLAN_PARTITION_SEARCH_H_
