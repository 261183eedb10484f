#include "coordinator/plan/partition_search.h"

#include <algorithm>
#include <limits>
#include <span>

#include "common/check.h"

namespace stagecoach {
namespace {

constexpr uint64_t kNeverBytes = std::numeric_limits<uint64_t>::max();

// Sums of speeds have rounding errors, and must not exclude what is possible.
constexpr double kSlack = 1 + 1e-9;

uint64_t AddBytes(uint64_t a, uint64_t b) { return a == kNeverBytes || b == kNeverBytes ? kNeverBytes : a + b; }
double SlowerOf(double a, double b) { return std::max(a, b); }

}  // namespace

PartitionSearch::PartitionSearch(const WorkerLoads& loads, uint64_t max_moves)
    : loads_(loads), is_v_(loads.is_v()), max_moves_(max_moves), speed_from_(loads.num_workers() + 1) {
  STAGECOACH_CHECK(loads.num_chunks() <= kMaxSearchedChunks);
  for (uint32_t rank = loads.num_workers(); rank-- > 0;) speed_from_[rank] = speed_from_[rank + 1] + loads.Speed(rank);
}

// Chunk by chunk, where it ends; the last one ends with the model. Each has a block for every stage.
void PartitionSearch::AddStarts(Position position, uint32_t chunk) {
  const uint32_t num_blocks = loads_.num_workers() * (is_v_ ? 2 : 1);
  const auto later_chunks = static_cast<uint32_t>(num_tapes()) - chunk - 1;
  if (later_chunks == 0) {
    position.end[chunk] = static_cast<uint16_t>(loads_.num_layers());
    levels_[0].Add(position);
    return;
  }
  for (uint32_t end = position.first[chunk] + 1; end < loads_.num_layers(); ++end) {
    if (loads_.NumBlocks({end, loads_.num_layers()}) < num_blocks * later_chunks || ++num_moves_ > max_moves_) return;
    if (loads_.NumBlocks({position.first[chunk], end}) < num_blocks) continue;
    position.end[chunk] = static_cast<uint16_t>(end);
    position.first[chunk + 1] = static_cast<uint16_t>(end);
    AddStarts(position, chunk + 1);
  }
}

uint64_t PartitionSearch::TicksLeft(const Position& position) const {
  uint64_t ticks = 0;
  for (size_t tape = 0; tape < num_tapes(); ++tape) ticks += loads_.Ticks({position.first[tape], position.end[tape]});
  return ticks;
}

// Whether the workers from `rank` on can do what is left, as far as sums can tell.
bool PartitionSearch::MayEnd(uint32_t rank, const Position& position, double seconds) const {
  const uint32_t stages_of_tape = (loads_.num_workers() - rank) * (is_v_ ? 2 : 1);
  for (size_t tape = 0; tape < num_tapes(); ++tape) {
    if (loads_.NumBlocks({position.first[tape], position.end[tape]}) < stages_of_tape) return false;
  }
  return loads_.SecondsAtSpeedOne(TicksLeft(position)) <= seconds * speed_from_[rank] * kSlack;
}

template <typename Visit>
void PartitionSearch::ForEachMove(uint32_t rank, const Position& from, double seconds, const Visit& visit) {
  Move move;
  move.rank = rank;
  move.to = from;
  const auto others = loads_.TicksWithin(seconds * speed_from_[rank + 1] * kSlack);
  const uint64_t left = TicksLeft(from);
  move.least_ticks = left > others ? left - others : 0;
  Choose(0, 0, seconds, move, visit);
}

// Of a stage of `chunk`: the last worker takes what is left (of a V, its first stage may end anywhere); a last chunk
// makes up for what the others lack.
uint32_t PartitionSearch::LeastLength(uint32_t chunk, uint64_t ticks, const Move& move) const {
  const size_t tape = is_v_ ? 0 : chunk;
  const bool from_end = is_v_ && chunk == 1;
  const LayerSpan left{move.to.first[tape], move.to.end[tape]};
  if (move.rank + 1 == loads_.num_workers() && (!is_v_ || from_end)) return left.end - left.first;
  if (chunk + 1 < loads_.num_chunks() || ticks >= move.least_ticks) return 1;
  uint32_t too_short = 0;
  uint32_t enough = left.end - left.first;
  while (too_short + 1 < enough) {
    const uint32_t middle = (too_short + enough) / 2;
    const LayerSpan span =
        from_end ? LayerSpan{left.end - middle, left.end} : LayerSpan{left.first, left.first + middle};
    (ticks + loads_.Ticks(span) < move.least_ticks ? too_short : enough) = middle;
  }
  return enough;
}

// Stages of `chunk`, the shortest first, each with everything that the later chunks may have.
template <typename Visit>
void PartitionSearch::Choose(uint32_t chunk, uint64_t ticks, double seconds, Move& move, const Visit& visit) {
  if (chunk == loads_.num_chunks()) {
    const bool is_last = move.rank + 1 == loads_.num_workers();
    const bool may_end = is_last || MayEnd(move.rank + 1, move.to, seconds);
    if (may_end && loads_.IsWithin(move.rank, SpansOf(move), seconds)) visit(move);
    return;
  }
  const size_t tape = is_v_ ? 0 : chunk;
  const bool from_end = is_v_ && chunk == 1;
  const Position before = move.to;
  const LayerSpan left{before.first[tape], before.end[tape]};
  for (uint32_t length = LeastLength(chunk, ticks, move); length <= left.end - left.first; ++length) {
    ++num_moves_;
    const LayerSpan span =
        from_end ? LayerSpan{left.end - length, left.end} : LayerSpan{left.first, left.first + length};
    move.spans[chunk] = span;
    const uint64_t ticks_so_far = ticks + loads_.Ticks(span);
    if (loads_.Seconds(move.rank, ticks_so_far) > seconds) break;  // a longer stage is slower still
    if (loads_.LeastBytes(move.rank, std::span(move.spans).first(chunk + 1)) > loads_.MemoryLimit(move.rank)) break;
    if (loads_.NumBlocks(span) == 0) continue;
    (from_end ? move.to.end : move.to.first)[tape] = static_cast<uint16_t>(from_end ? span.first : span.end);
    Choose(chunk + 1, ticks_so_far, seconds, move, visit);
    move.to = before;
  }
}

double PartitionSearch::WorkerSeconds(const Move& move) const {
  const std::optional<uint64_t> ticks = loads_.TicksOf(move.rank, SpansOf(move));
  STAGECOACH_CHECK(ticks.has_value());
  return loads_.Seconds(move.rank, *ticks);
}

double PartitionSearch::StageSeconds(const Move& move) const {
  double slowest = 0;
  for (const LayerSpan span : SpansOf(move)) slowest = std::max(slowest, loads_.Seconds(move.rank, loads_.Ticks(span)));
  return slowest;
}

uint64_t PartitionSearch::CutBytes(const Move& move) const {
  uint64_t bytes = 0;
  for (uint32_t chunk = 0; chunk < loads_.num_chunks(); ++chunk) {
    bytes += loads_.CutBytes(loads_.StageOf(move.rank, chunk), move.spans[chunk].end);
  }
  return bytes;
}

PartitionSearch::Outcome PartitionSearch::Reach(double seconds) {
  levels_.assign(loads_.num_workers() + 1, {});
  num_moves_ = 0;
  AddStarts({}, 0);
  if (num_moves_ > max_moves_) return Outcome::kTooMuchWork;
  for (uint32_t rank = 0; rank < loads_.num_workers(); ++rank) {
    Level& next = levels_[rank + 1];
    for (const Position& position : levels_[rank].positions) {
      if (rank == 0 && !MayEnd(0, position, seconds)) continue;
      ForEachMove(rank, position, seconds, [&next](const Move& move) { next.Add(move.to); });
      if (num_moves_ > max_moves_) return Outcome::kTooMuchWork;
    }
  }
  return levels_.back().positions.empty() ? Outcome::kImpossible : Outcome::kFound;
}

template <typename Value, typename Cost, typename Join>
PartitionSearch::Values<Value> PartitionSearch::BackUp(double seconds, const Cost& cost, const Join& join) {
  const auto never = std::numeric_limits<Value>::has_infinity ? std::numeric_limits<Value>::infinity()
                                                              : std::numeric_limits<Value>::max();
  Values<Value> values(levels_.size());
  values.back().assign(levels_.back().positions.size(), Value{0});
  for (uint32_t rank = loads_.num_workers(); rank-- > 0;) {
    const Level& next = levels_[rank + 1];
    for (const Position& position : levels_[rank].positions) {
      Value best = never;
      ForEachMove(rank, position, seconds, [&](const Move& move) {
        const auto to = next.index.find(move.to);
        if (to != next.index.end()) best = std::min(best, join(cost(move), values[rank + 1][to->second]));
      });
      values[rank].push_back(best);
    }
  }
  return values;
}

// From the first worker on, the shortest stages that lead to the fewest bytes.
void PartitionSearch::Follow(const Values<uint64_t>& bytes) {
  spans_.clear();
  size_t at = static_cast<size_t>(std::min_element(bytes[0].begin(), bytes[0].end()) - bytes[0].begin());
  for (uint32_t rank = 0; rank < loads_.num_workers(); ++rank) {
    const Level& next = levels_[rank + 1];
    size_t to = SIZE_MAX;
    ForEachMove(rank, levels_[rank].positions[at], slowest_worker_, [&](const Move& move) {
      if (to != SIZE_MAX || StageSeconds(move) > slowest_stage_) return;
      const size_t candidate = next.index.at(move.to);
      if (AddBytes(CutBytes(move), bytes[rank + 1][candidate]) != bytes[rank][at]) return;
      to = candidate;
      spans_.emplace_back(move.spans.begin(), move.spans.begin() + loads_.num_chunks());
    });
    STAGECOACH_CHECK(to != SIZE_MAX);
    at = to;
  }
}

// Of the partitions of Reach(seconds).
void PartitionSearch::ChooseBest(double seconds) {
  const auto least = [](const auto& values) { return *std::min_element(values[0].begin(), values[0].end()); };
  slowest_worker_ = least(BackUp<double>(
      seconds, [this](const Move& move) { return WorkerSeconds(move); }, SlowerOf));
  slowest_stage_ = least(BackUp<double>(
      slowest_worker_, [this](const Move& move) { return StageSeconds(move); }, SlowerOf));
  Follow(BackUp<uint64_t>(
      slowest_worker_,
      [this](const Move& move) { return StageSeconds(move) <= slowest_stage_ ? CutBytes(move) : kNeverBytes; },
      AddBytes));
}

// The less time is allowed, the fewer positions there are.
PartitionSearch::Outcome PartitionSearch::Find() {
  lower_bound_ = loads_.LeastSeconds();
  const double most = loads_.MostSeconds();
  double allowed = lower_bound_;
  for (double growth = 1.0 / 64;; growth *= 2) {
    const Outcome outcome = Reach(allowed);
    if (outcome == Outcome::kTooMuchWork || (outcome == Outcome::kImpossible && allowed >= most)) return outcome;
    if (outcome == Outcome::kFound) break;
    lower_bound_ = allowed;
    allowed = std::min(most, loads_.LeastSeconds() * (1 + growth));
  }
  ChooseBest(allowed);
  lower_bound_ = slowest_worker_;
  return Outcome::kFound;
}

}  // namespace stagecoach
