#include "coordinator/plan/worker_loads.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "common/check.h"
#include "coordinator/plan/slot_counts.h"

namespace stagecoach {
namespace {

// Of transfers from a stage that runs ahead, as lowering lets it.
constexpr uint32_t kAheadSlots = 4;

constexpr int kTickBits = 48;

double WorkSeconds(const LayerLoad& layer) {
  return layer.forward_seconds + layer.backward_input_seconds + layer.backward_weight_seconds +
         (layer.is_always_recomputed ? layer.recompute_seconds : 0);
}

// Whether to recompute it is a choice.
bool MayBeRecomputed(const LayerLoad& layer) {
  return std::isfinite(layer.recompute_seconds) && !layer.is_always_recomputed;
}

// A power of two: dividing by it is exact.
double SecondsOfTick(const PartitionProblem& problem) {
  double seconds = 0;
  for (const LayerLoad& layer : problem.layers) {
    seconds += WorkSeconds(layer);
    if (MayBeRecomputed(layer)) seconds += layer.recompute_seconds;
  }
  if (!(seconds > 0) || !std::isfinite(seconds)) return 1;
  return std::exp2(std::ceil(std::log2(seconds)) - kTickBits);
}

uint64_t Micro(uint32_t slots, uint64_t bytes) { return uint64_t{slots} * bytes; }

// What a recomputed layer holds: `saved` of one micro-batch, and `shared` of those between R and W.
uint32_t RecomputedSaved(const StageSlotCounts& slots) { return std::min(slots.saved, 1u); }
uint32_t RecomputedShared(const StageSlotCounts& slots) {
  return std::min(slots.shared, std::max(slots.pending, slots.remade));
}

}  // namespace

WorkerLoads::WorkerLoads(const PartitionProblem& problem)
    : problem_(problem),
      seconds_of_tick_(SecondsOfTick(problem)),
      ticks_before_(problem.layers.size() + 1),
      recompute_ticks_before_(problem.layers.size() + 1),
      blocks_before_(problem.layers.size() + 1),
      bytes_before_(problem.layers.size() + 1),
      scratch_(1) {
  const auto ticks = [this](double seconds) { return static_cast<uint64_t>(std::llround(seconds / seconds_of_tick_)); };
  for (size_t i = 0; i < problem.layers.size(); ++i) {
    const LayerLoad& layer = problem.layers[i];
    const bool can_recompute = MayBeRecomputed(layer);
    ticks_before_[i + 1] = ticks_before_[i] + ticks(WorkSeconds(layer));
    recompute_ticks_before_[i + 1] = recompute_ticks_before_[i] + (can_recompute ? ticks(layer.recompute_seconds) : 0);
    blocks_before_[i + 1] = blocks_before_[i] + (layer.is_block ? 1 : 0);
    Bytes bytes = bytes_before_[i];
    bytes.state += layer.state_bytes;
    (layer.is_always_recomputed ? bytes.remade_saved : bytes.saved) += layer.saved_bytes;
    (layer.is_always_recomputed ? bytes.remade_shared : bytes.kept_shared) += layer.shared_bytes;
    bytes.kept_shared += layer.input_bytes;
    bytes.pending += layer.pending_bytes;
    if (can_recompute) {
      bytes.freeable_saved += layer.saved_bytes;
      bytes.freeable_shared += layer.shared_bytes;
    }
    bytes_before_[i + 1] = bytes;
    scratch_[0].push_back(layer.scratch_bytes);
  }
  AddSkips();
  for (size_t length = 2; length <= problem.layers.size(); length *= 2) {
    const std::vector<uint64_t>& halves = scratch_.back();
    std::vector<uint64_t> largest(problem.layers.size() - length + 1);
    for (size_t i = 0; i < largest.size(); ++i) largest[i] = std::max(halves[i], halves[i + length / 2]);
    scratch_.push_back(std::move(largest));
  }
}

void WorkerLoads::AddSkips() {
  skips_by_end_ = problem_.skips;
  std::sort(skips_by_end_.begin(), skips_by_end_.end(),
            [](const SkipLoad& a, const SkipLoad& b) { return a.to_layer < b.to_layer; });
  skips_before_.resize(num_layers() + 1);
  for (const SkipLoad& skip : problem_.skips) {
    ++skips_before_[skip.from_layer + 1].starts;
    ++skips_before_[skip.to_layer + 1].ends;
  }
  for (uint32_t layer = 0; layer < num_layers(); ++layer) {
    skips_before_[layer + 1].starts += skips_before_[layer].starts;
    skips_before_[layer + 1].ends += skips_before_[layer].ends;
  }
}

uint32_t WorkerLoads::StageOf(uint32_t rank, uint32_t chunk) const {
  if (problem_.placement == StagePlacement::kV && chunk == 1) return 2 * num_workers() - 1 - rank;
  return chunk * num_workers() + rank;
}

std::vector<std::vector<LayerSpan>> WorkerLoads::SpansOf(const StagePartition& stages) const {
  std::vector<std::vector<LayerSpan>> spans(num_workers());
  for (uint32_t rank = 0; rank < num_workers(); ++rank) {
    for (uint32_t chunk = 0; chunk < num_chunks(); ++chunk) {
      const LayerRange layers = stages[StageOf(rank, chunk)];
      spans[rank].push_back({layers.first, layers.last + 1});
    }
  }
  return spans;
}

uint64_t WorkerLoads::TicksWithin(double seconds) const {
  const double ticks = seconds / seconds_of_tick_;
  return ticks < static_cast<double>(ticks_before_.back()) ? static_cast<uint64_t>(ticks) : ticks_before_.back();
}

double WorkerLoads::LeastSeconds() const {
  double speeds = 0;
  double fastest = 0;
  for (uint32_t rank = 0; rank < num_workers(); ++rank) {
    speeds += Speed(rank);
    fastest = std::max(fastest, Speed(rank));
  }
  uint64_t longest = 0;
  for (uint32_t layer = 0; layer < num_layers(); ++layer) longest = std::max(longest, Ticks({layer, layer + 1}));
  return std::max(SecondsAtSpeedOne(ticks_before_.back()) / speeds, SecondsAtSpeedOne(longest) / fastest);
}

double WorkerLoads::MostSeconds() const {
  double most = 0;
  for (uint32_t rank = 0; rank < num_workers(); ++rank) {
    most = std::max(most, Seconds(rank, ticks_before_.back() + recompute_ticks_before_.back()));
  }
  return most;
}

uint64_t WorkerLoads::CutBytes(uint32_t stage, uint32_t end) const {
  if (stage + 1 == problem_.num_stages()) return 0;
  const bool is_hop = WorkerOfStage(problem_.placement, num_workers(), stage) !=
                      WorkerOfStage(problem_.placement, num_workers(), stage + 1);
  return is_hop ? problem_.layers[end - 1].boundary_bytes : 0;
}

uint64_t WorkerLoads::Scratch(LayerSpan span) const {
  const auto k = static_cast<size_t>(std::bit_width(span.end - span.first) - 1);
  return std::max(scratch_[k][span.first], scratch_[k][span.end - (size_t{1} << k)]);
}

// Without its transfers, its tie and its scratch.
uint64_t WorkerLoads::StageBytes(uint32_t stage, LayerSpan span) const {
  const StageSlotCounts slots = SlotsOf(stage);
  const Bytes& before = bytes_before_[span.first];
  const Bytes& end = bytes_before_[span.end];
  return end.state - before.state + Micro(slots.saved, end.saved - before.saved) +
         Micro(slots.shared, end.kept_shared - before.kept_shared) +
         Micro(RecomputedSaved(slots), end.remade_saved - before.remade_saved) +
         Micro(RecomputedShared(slots), end.remade_shared - before.remade_shared) +
         Micro(slots.pending, end.pending - before.pending) + Micro(slots.load, problem_.load_bytes);
}

uint64_t WorkerLoads::TransferBytes(uint32_t stage, LayerSpan span) const {
  const StageSlotCounts slots = SlotsOf(stage);
  uint64_t bytes = 0;
  if (span.first > 0) bytes += Micro(slots.transfers_before, problem_.layers[span.first - 1].boundary_bytes);
  if (span.end < num_layers()) bytes += Micro(slots.transfers_behind, problem_.layers[span.end - 1].boundary_bytes);
  return bytes + SkipTransferBytes(stage, span);
}

std::span<const SkipLoad> WorkerLoads::SkipsFrom(LayerSpan span) const {
  const uint32_t first = skips_before_[span.first].starts;
  return std::span(problem_.skips).subspan(first, skips_before_[span.end].starts - first);
}

std::span<const SkipLoad> WorkerLoads::SkipsTo(LayerSpan span) const {
  const uint32_t first = skips_before_[span.first].ends;
  return std::span(skips_by_end_).subspan(first, skips_before_[span.end].ends - first);
}

uint64_t WorkerLoads::HeldSkipBytes(LayerSpan span) const {
  uint64_t bytes = 0;
  for (const SkipLoad& skip : SkipsFrom(span)) bytes += skip.to_layer < span.end ? skip.bytes : 0;
  return bytes;
}

// A guess: exact numbers are lowering's. A tensor that has come waits while its micro-batch goes through the stages
// between: one is in each of them, and some are under way. There are no more than stages before this one (of gradients:
// behind it), nor than layers between. A connection without a gradient may start in a stage that runs ahead.
uint32_t WorkerLoads::NumWaiting(const SkipLoad& skip, uint32_t num_stages_before) const {
  const uint32_t num_between = std::min(num_stages_before, skip.to_layer - skip.from_layer);
  return std::min(problem_.num_micro_batches, num_between + (skip.has_gradient ? kTransferSlots : kAheadSlots));
}

uint64_t WorkerLoads::SkipTransferBytes(uint32_t stage, LayerSpan span) const {
  if (problem_.slots.empty()) return 0;
  const auto num_behind = static_cast<uint32_t>(problem_.num_stages()) - 1 - stage;
  uint64_t bytes = 0;
  for (const SkipLoad& skip : SkipsFrom(span)) {
    if (skip.to_layer < span.end) continue;
    bytes += Micro(kTransferSlots + (skip.has_gradient ? NumWaiting(skip, num_behind) : 0), skip.bytes);
  }
  for (const SkipLoad& skip : SkipsTo(span)) {
    if (skip.from_layer >= span.first) continue;
    bytes += Micro(NumWaiting(skip, stage) + (skip.has_gradient ? kTransferSlots : 0), skip.bytes);
  }
  return bytes;
}

uint64_t WorkerLoads::FreeableBytes(uint32_t stage, LayerSpan span) const {
  const StageSlotCounts slots = SlotsOf(stage);
  const Bytes& before = bytes_before_[span.first];
  const Bytes& end = bytes_before_[span.end];
  return Micro(slots.saved - RecomputedSaved(slots), end.freeable_saved - before.freeable_saved) +
         Micro(slots.shared - RecomputedShared(slots), end.freeable_shared - before.freeable_shared);
}

int64_t WorkerLoads::TieBytes(LayerSpan span) const {
  if (!problem_.tie.has_value()) return 0;
  const auto holds = [&span](uint32_t layer) { return span.first <= layer && layer < span.end; };
  const bool owner = holds(problem_.tie->owner_layer);
  const bool later = holds(problem_.tie->later_layer);
  if (owner && later) return -static_cast<int64_t>(problem_.tie->together_bytes);
  return owner || later ? static_cast<int64_t>(problem_.tie->apart_bytes) : 0;
}

WorkerLoads::Memory WorkerLoads::MemoryOf(uint32_t rank, std::span<const LayerSpan> spans) const {
  Memory memory;
  uint64_t scratch = 0;
  for (uint32_t chunk = 0; chunk < spans.size(); ++chunk) {
    const uint32_t stage = StageOf(rank, chunk);
    memory.needed_bytes += StageBytes(stage, spans[chunk]) + TransferBytes(stage, spans[chunk]);
    memory.needed_bytes += static_cast<uint64_t>(TieBytes(spans[chunk]));
    memory.freeable_bytes += FreeableBytes(stage, spans[chunk]);
    scratch = std::max(scratch, Scratch(spans[chunk]) + HeldSkipBytes(spans[chunk]));
  }
  memory.needed_bytes += scratch;
  return memory;
}

uint64_t WorkerLoads::LeastBytes(uint32_t rank, std::span<const LayerSpan> spans) const {
  uint64_t bytes = 0;
  for (uint32_t chunk = 0; chunk < spans.size(); ++chunk) {
    const uint32_t stage = StageOf(rank, chunk);
    bytes += StageBytes(stage, spans[chunk]) - FreeableBytes(stage, spans[chunk]);
  }
  const uint64_t together = problem_.tie.has_value() ? problem_.tie->together_bytes : 0;
  return bytes - std::min(bytes, together);
}

uint64_t WorkerLoads::LackingBytes(uint32_t rank, std::span<const LayerSpan> spans) const {
  const Memory memory = MemoryOf(rank, spans);
  const uint64_t least = memory.needed_bytes - memory.freeable_bytes;
  return least > MemoryLimit(rank) ? least - MemoryLimit(rank) : 0;
}

std::optional<Recomputation> WorkerLoads::Recompute(uint32_t rank, std::span<const LayerSpan> spans,
                                                    uint64_t needed_bytes, std::vector<uint32_t>& layers) const {
  std::vector<RecomputeOption> options;
  for (uint32_t chunk = 0; chunk < spans.size(); ++chunk) {
    const uint32_t stage = StageOf(rank, chunk);
    for (uint32_t layer = spans[chunk].first; layer < spans[chunk].end; ++layer) {
      const uint64_t bytes = FreeableBytes(stage, {layer, layer + 1});
      if (bytes == 0) continue;
      const uint64_t ticks = recompute_ticks_before_[layer + 1] - recompute_ticks_before_[layer];
      options.push_back({.ticks = ticks, .bytes = bytes});
      layers.push_back(layer);
    }
  }
  return CheapestRecomputation(options, needed_bytes);
}

std::optional<uint64_t> WorkerLoads::TicksOf(uint32_t rank, std::span<const LayerSpan> spans) const {
  uint64_t ticks = 0;
  for (const LayerSpan span : spans) ticks += Ticks(span);
  const Memory memory = MemoryOf(rank, spans);
  const uint64_t limit = MemoryLimit(rank);
  if (memory.needed_bytes <= limit) return ticks;
  if (memory.needed_bytes - limit > memory.freeable_bytes) return std::nullopt;
  std::vector<uint32_t> layers;
  return ticks + Recompute(rank, spans, memory.needed_bytes - limit, layers)->ticks;
}

bool WorkerLoads::IsWithin(uint32_t rank, std::span<const LayerSpan> spans, double seconds) const {
  uint64_t least = 0;
  uint64_t most = 0;
  for (const LayerSpan span : spans) {
    least += Ticks(span);
    most += recompute_ticks_before_[span.end] - recompute_ticks_before_[span.first];
  }
  most += least;
  if (Seconds(rank, least) > seconds) return false;
  const Memory memory = MemoryOf(rank, spans);
  if (memory.needed_bytes <= MemoryLimit(rank)) return true;
  if (memory.needed_bytes - MemoryLimit(rank) > memory.freeable_bytes) return false;
  return Seconds(rank, most) <= seconds || Seconds(rank, *TicksOf(rank, spans)) <= seconds;
}

std::vector<std::vector<uint32_t>> WorkerLoads::RecomputedLayers(uint32_t rank,
                                                                 std::span<const LayerSpan> spans) const {
  std::vector<std::vector<uint32_t>> recomputed(spans.size());
  for (size_t chunk = 0; chunk < spans.size(); ++chunk) {
    for (uint32_t layer = spans[chunk].first; layer < spans[chunk].end; ++layer) {
      if (problem_.layers[layer].is_always_recomputed) recomputed[chunk].push_back(layer);
    }
  }
  const uint64_t needed = MemoryOf(rank, spans).needed_bytes;
  const uint64_t limit = MemoryLimit(rank);
  if (needed <= limit) return recomputed;
  std::vector<uint32_t> layers;
  const std::optional<Recomputation> recomputation = Recompute(rank, spans, needed - limit, layers);
  STAGECOACH_CHECK(recomputation.has_value());
  for (const uint32_t option : recomputation->chosen) {
    for (size_t chunk = 0; chunk < spans.size(); ++chunk) {
      const bool is_here = spans[chunk].first <= layers[option] && layers[option] < spans[chunk].end;
      if (is_here) recomputed[chunk].push_back(layers[option]);
    }
  }
  for (std::vector<uint32_t>& of_chunk : recomputed) std::sort(of_chunk.begin(), of_chunk.end());
  return recomputed;
}

uint64_t WorkerLoads::BytesWith(uint32_t rank, std::span<const LayerSpan> spans,
                                std::span<const std::vector<uint32_t>> recomputed) const {
  uint64_t bytes = MemoryOf(rank, spans).needed_bytes;
  for (uint32_t chunk = 0; chunk < recomputed.size(); ++chunk) {
    for (const uint32_t layer : recomputed[chunk]) {
      bytes -= FreeableBytes(StageOf(rank, chunk), {layer, layer + 1});
    }
  }
  return bytes;
}

}  // namespace stagecoach
