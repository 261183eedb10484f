#ifndef STAGECOACH_COORDINATOR_PLAN_WORKER_LOADS_H_
#define STAGECOACH_COORDINATOR_PLAN_WORKER_LOADS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "coordinator/plan/partition_problem.h"
#include "coordinator/plan/recomputation.h"

namespace stagecoach {

// Layers [first, end) of one stage.
struct LayerSpan {
  uint32_t first = 0;
  uint32_t end = 0;
};

// Time and memory of any stages of a PartitionProblem, from sums over the layers before each layer. Times are counted
// in ticks, whole multiples of a power of two that is at most 2^-46 of the model's time: sums have no rounding error,
// so that stages of equal layers take equal times, wherever they are. Costs that are whole numbers below 2^48 are
// exact. Constant after construction; the problem has passed CheckPartitionProblem and outlives it.
class WorkerLoads {
 public:
  explicit WorkerLoads(const PartitionProblem& problem);

  uint32_t num_layers() const { return static_cast<uint32_t>(problem_.layers.size()); }
  uint32_t num_workers() const { return static_cast<uint32_t>(problem_.workers.size()); }
  uint32_t num_chunks() const { return problem_.num_chunks; }
  bool is_v() const { return problem_.placement == StagePlacement::kV; }
  double Speed(uint32_t rank) const { return problem_.workers[rank].speed; }
  uint64_t MemoryLimit(uint32_t rank) const { return problem_.workers[rank].memory_bytes; }
  uint32_t StageOf(uint32_t rank, uint32_t chunk) const;                            // chunks are in pipeline order
  std::vector<std::vector<LayerSpan>> SpansOf(const StagePartition& stages) const;  // [num_workers][num_chunks]

  uint64_t Ticks(LayerSpan span) const { return ticks_before_[span.end] - ticks_before_[span.first]; }
  uint32_t NumBlocks(LayerSpan span) const { return blocks_before_[span.end] - blocks_before_[span.first]; }
  double SecondsAtSpeedOne(uint64_t ticks) const { return static_cast<double>(ticks) * seconds_of_tick_; }
  uint64_t TicksWithin(double seconds) const;  // at speed 1
  // One expression, so that times compare without a tolerance.
  double Seconds(uint32_t rank, uint64_t ticks) const { return SecondsAtSpeedOne(ticks) / Speed(rank); }
  // Between these are the times of the slowest workers of all partitions.
  double LeastSeconds() const;
  double MostSeconds() const;
  // Of the cut behind a stage that ends before layer `end`; 0 behind the last stage and within a worker.
  uint64_t CutBytes(uint32_t stage, uint32_t end) const;

  // Of a worker with a stage for each chunk. [num_chunks]
  struct Memory {
    uint64_t needed_bytes = 0;    // when nothing is recomputed but what always is
    uint64_t freeable_bytes = 0;  // by recomputing all that can be
  };
  Memory MemoryOf(uint32_t rank, std::span<const LayerSpan> spans) const;
  // Less than any worker needs that has at least these layers: what recomputation can free, the tie and the cuts left
  // out.
  uint64_t LeastBytes(uint32_t rank, std::span<const LayerSpan> spans) const;
  // The least time in which the worker can do it, what it recomputes included; nothing when it lacks memory.
  std::optional<uint64_t> TicksOf(uint32_t rank, std::span<const LayerSpan> spans) const;
  // Whether that is at most `seconds`; cheaper than to know the time.
  bool IsWithin(uint32_t rank, std::span<const LayerSpan> spans, double seconds) const;
  // What it lacks even when it recomputes all that it can.
  uint64_t LackingBytes(uint32_t rank, std::span<const LayerSpan> spans) const;
  // The layers that it then recomputes, by chunk, ascending. It does not lack memory.
  std::vector<std::vector<uint32_t>> RecomputedLayers(uint32_t rank, std::span<const LayerSpan> spans) const;
  // What it needs when it does. [num_chunks] of layers
  uint64_t BytesWith(uint32_t rank, std::span<const LayerSpan> spans,
                     std::span<const std::vector<uint32_t>> recomputed) const;

 private:
  // Sums over layers [0, i).
  struct Bytes {
    uint64_t state = 0, saved = 0, kept_shared = 0, pending = 0;
    uint64_t freeable_saved = 0, freeable_shared = 0;  // of layers that can be recomputed
    uint64_t remade_saved = 0, remade_shared = 0;      // of layers that always are
  };
  // Of the skips that start, and of those that end, at layers [0, i): how many.
  struct SkipCounts {
    uint32_t starts = 0, ends = 0;
  };
  StageSlotCounts SlotsOf(uint32_t stage) const {
    return problem_.slots.empty() ? StageSlotCounts{} : problem_.slots[stage];
  }
  uint64_t StageBytes(uint32_t stage, LayerSpan span) const;
  uint64_t TransferBytes(uint32_t stage, LayerSpan span) const;
  void AddSkips();
  std::span<const SkipLoad> SkipsFrom(LayerSpan span) const;
  std::span<const SkipLoad> SkipsTo(LayerSpan span) const;
  uint32_t NumWaiting(const SkipLoad& skip, uint32_t num_stages_before) const;
  uint64_t HeldSkipBytes(LayerSpan span) const;
  uint64_t SkipTransferBytes(uint32_t stage, LayerSpan span) const;
  uint64_t FreeableBytes(uint32_t stage, LayerSpan span) const;
  uint64_t Scratch(LayerSpan span) const;
  int64_t TieBytes(LayerSpan span) const;
  std::optional<Recomputation> Recompute(uint32_t rank, std::span<const LayerSpan> spans, uint64_t needed_bytes,
                                         std::vector<uint32_t>& layers) const;

  const PartitionProblem& problem_;
  double seconds_of_tick_ = 1;
  std::vector<uint64_t> ticks_before_;
  std::vector<uint64_t> recompute_ticks_before_;
  std::vector<uint32_t> blocks_before_;
  std::vector<Bytes> bytes_before_;
  std::vector<SkipCounts> skips_before_;
  std::vector<SkipLoad> skips_by_end_;
  std::vector<std::vector<uint64_t>> scratch_;  // [k][i]: the largest of layers [i, i + 2^k)
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PLAN_WORKER_LOADS_H_
