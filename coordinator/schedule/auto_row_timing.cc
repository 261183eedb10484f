#include "coordinator/schedule/auto_row_timing.h"

#include <algorithm>
#include <bit>

#include "common/check.h"

namespace stagecoach {

AutoRowTiming::AutoRowTiming(const AutoGraph& graph, const AutoRows& rows)
    : graph_(graph),
      rows_(rows),
      position_(graph.size()),
      end_(graph.size()),
      sent_(graph.size()),
      rank_(graph.size()),
      dirty_(graph.size() / 64 + 1) {
  AutoTiming timing(graph);
  STAGECOACH_CHECK(timing.RunWithRooms(rows));
  order_ = timing.order();
  // By start, so that what a move changes lies together; stable, so that it stays topological.
  std::stable_sort(order_.begin(), order_.end(),
                   [&](uint32_t a, uint32_t b) { return timing.start(a) < timing.start(b); });
  STAGECOACH_CHECK(timing.Run(rows));
  cost_ = timing.cost();
  for (uint32_t rank = 0; rank < order_.size(); ++rank) rank_[order_[rank]] = rank;
  for (uint32_t index = 0; index < graph.size(); ++index) {
    end_[index] = timing.end(index);
    sent_[index] = timing.sent(index);
  }
  for (uint32_t worker = 0; worker < graph.num_workers(); ++worker) {
    const uint32_t size = static_cast<uint32_t>(rows_[worker].size());
    for (uint32_t position = 0; position < size; ++position) position_[rows_[worker][position]] = position;
    held_.emplace_back(size, 0);
    CountHeld(worker, 0, size - 1);
  }
}

void AutoRowTiming::CountHeld(uint32_t worker, uint32_t first, uint32_t last) {
  uint32_t held = held_[worker][first];
  for (uint32_t position = first; position <= last; ++position) {
    held_[worker][position] = held;
    const AutoKind kind = graph_.node(rows_[worker][position]).kind;
    if (kind == AutoKind::kForward) ++held;
    if (kind == AutoKind::kBackwardWeight) --held;
  }
}

bool AutoRowTiming::MayExchange(uint32_t first, uint32_t second) const {
  const AutoNode& a = graph_.node(first);
  const AutoNode& b = graph_.node(second);
  if (a.stage == b.stage && (a.kind == b.kind || a.micro_batch == b.micro_batch)) return false;
  return b.input != first;
}

bool AutoRowTiming::IsLegal(uint32_t worker, uint32_t from, uint32_t to) const {
  const std::vector<uint32_t>& row = rows_[worker];
  for (uint32_t position = from + 1; position <= to; ++position) {
    if (!MayExchange(row[from], row[position])) return false;
  }
  for (uint32_t position = to; position < from; ++position) {
    if (!MayExchange(row[position], row[from])) return false;
  }
  return true;
}

bool AutoRowTiming::FitsMemory(uint32_t worker, uint32_t first, uint32_t last) const {
  uint32_t held = held_[worker][first];
  for (uint32_t position = first; position <= last; ++position) {
    const AutoKind kind = graph_.node(rows_[worker][position]).kind;
    if (kind == AutoKind::kForward && ++held > graph_.capacity(worker)) return false;
    if (kind == AutoKind::kBackwardWeight) --held;
  }
  return true;
}

void AutoRowTiming::Shift(uint32_t worker, uint32_t from, uint32_t to) {
  const auto at = [&](uint32_t position) { return rows_[worker].begin() + position; };
  if (from < to) {
    std::rotate(at(from), at(from + 1), at(to + 1));
  } else {
    std::rotate(at(to), at(from), at(from + 1));
  }
  for (uint32_t p = std::min(from, to); p <= std::max(from, to); ++p) position_[rows_[worker][p]] = p;
}

uint32_t AutoRowTiming::Before(uint32_t index) const {
  return position_[index] == 0 ? kNoNode : rows_[graph_.node(index).worker][position_[index] - 1];
}

uint32_t AutoRowTiming::After(uint32_t index) const {
  const std::vector<uint32_t>& row = rows_[graph_.node(index).worker];
  return position_[index] + 1 == row.size() ? kNoNode : row[position_[index] + 1];
}

void AutoRowTiming::SetOrder(uint32_t first_rank, const std::vector<uint32_t>& part) {
  for (uint32_t i = 0; i < part.size(); ++i) {
    order_[first_rank + i] = part[i];
    rank_[part[i]] = first_rank + i;
  }
}

// Only the ranks between those of the actions that moved can be out of order: they are sorted again, those that were
// first staying first where they may. False: a cycle. The transfers of an edge add nothing: their order is that of
// rows.
bool AutoRowTiming::Reorder(uint32_t worker, uint32_t first, uint32_t last) {
  uint32_t low = graph_.size();
  uint32_t high = 0;
  for (uint32_t position = first; position <= last; ++position) {
    low = std::min(low, rank_[rows_[worker][position]]);
    high = std::max(high, rank_[rows_[worker][position]]);
  }
  const uint32_t size = high - low + 1;
  window_rank_ = low;
  old_window_.assign(order_.begin() + low, order_.begin() + high + 1);
  const auto inside = [&](uint32_t index) { return index != kNoNode && rank_[index] >= low && rank_[index] <= high; };
  num_waits_.assign(size, 0);
  open_.assign(size / 64 + 1, 0);
  for (uint32_t i = 0; i < size; ++i) {
    const uint32_t index = old_window_[i];
    const AutoNode& node = graph_.node(index);
    for (const uint32_t before : {Before(index), node.input, node.room}) num_waits_[i] += inside(before) ? 1 : 0;
    if (num_waits_[i] == 0) open_[i / 64] |= uint64_t{1} << (i % 64);
  }
  new_window_.clear();
  for (size_t word = 0; word < open_.size();) {
    if (open_[word] == 0) {
      ++word;
      continue;
    }
    const uint32_t index = old_window_[word * 64 + static_cast<size_t>(std::countr_zero(open_[word]))];
    open_[word] &= open_[word] - 1;
    new_window_.push_back(index);
    const AutoNode& node = graph_.node(index);
    for (const uint32_t next : {After(index), node.output, node.gives_room_to}) {
      if (!inside(next)) continue;
      const uint32_t i = rank_[next] - low;
      if (--num_waits_[i] > 0) continue;
      open_[i / 64] |= uint64_t{1} << (i % 64);
      word = std::min<size_t>(word, i / 64);
    }
  }
  work_ += size;
  if (new_window_.size() < size) return false;
  SetOrder(low, new_window_);
  return true;
}

void AutoRowTiming::Retime(uint32_t index) {
  ++work_;
  const AutoNode& node = graph_.node(index);
  const uint32_t before = Before(index);
  double start = before == kNoNode ? 0 : end_[before];
  if (node.input != kNoNode) start = std::max(start, sent_[node.input] + graph_.node(node.input).latency);
  const double end = start + node.duration;
  const double sent = std::max(end, node.micro_batch == 0 ? 0 : sent_[index - 1]) + node.edge_seconds;
  if (end == end_[index] && sent == sent_[index]) return;
  old_times_.push_back({index, end_[index], sent_[index]});
  end_[index] = end;
  sent_[index] = sent;
  if (const uint32_t after = After(index); after != kNoNode) Mark(after);
  if (node.output == kNoNode) return;
  Mark(node.output);
  if (node.edge_seconds > 0 && node.micro_batch + 1 < graph_.num_micro_batches()) Mark(index + 1);
}

void AutoRowTiming::Propagate(uint32_t worker, uint32_t first, uint32_t last) {
  old_times_.clear();
  for (uint32_t position = first; position <= last; ++position) Mark(rows_[worker][position]);
  if (last + 1 < rows_[worker].size()) Mark(rows_[worker][last + 1]);
  for (size_t word = window_rank_ / 64; word < dirty_.size(); ++word) {
    while (dirty_[word] != 0) {
      const uint32_t rank = static_cast<uint32_t>(word * 64) + static_cast<uint32_t>(std::countr_zero(dirty_[word]));
      dirty_[word] &= dirty_[word] - 1;
      Retime(order_[rank]);
    }
  }
}

bool AutoRowTiming::Move(uint32_t worker, uint32_t from, uint32_t to) {
  ++work_;
  if (!IsLegal(worker, from, to)) return false;
  const uint32_t first = std::min(from, to);
  const uint32_t last = std::max(from, to);
  Shift(worker, from, to);
  if (!FitsMemory(worker, first, last) || !Reorder(worker, first, last)) {
    Shift(worker, to, from);
    return false;
  }
  CountHeld(worker, first, last);
  Propagate(worker, first, last);
  moved_worker_ = worker;
  moved_from_ = from;
  moved_to_ = to;
  old_cost_ = cost_;
  cost_ = CostOfEnds(graph_, rows_, end_);
  return true;
}

void AutoRowTiming::Undo() {
  Shift(moved_worker_, moved_to_, moved_from_);
  CountHeld(moved_worker_, std::min(moved_from_, moved_to_), std::max(moved_from_, moved_to_));
  SetOrder(window_rank_, old_window_);
  for (size_t i = old_times_.size(); i-- > 0;) {
    end_[old_times_[i].index] = old_times_[i].end;
    sent_[old_times_[i].index] = old_times_[i].sent;
  }
  cost_ = old_cost_;
}

void AutoRowTiming::CriticalPlaces(uint64_t coin, std::vector<Place>& places) const {
  places.clear();
  uint32_t last = 0;
  for (uint32_t worker = 1; worker < graph_.num_workers(); ++worker) {
    const auto seconds = [&](uint32_t w) { return end_[rows_[w].back()] - graph_.origin(w); };
    if (seconds(worker) > seconds(last)) last = worker;
  }
  for (uint32_t index = rows_[last].back(); index != kNoNode;) {
    const AutoNode& node = graph_.node(index);
    const uint32_t before = Before(index);
    const double row_free = before == kNoNode ? -1 : end_[before];
    const double arrival = node.input == kNoNode ? -1 : sent_[node.input] + graph_.node(node.input).latency;
    coin = coin >> 1 | coin << 63;
    if (before != kNoNode && (row_free > arrival || (row_free == arrival && (coin & 1) != 0))) {
      places.push_back({node.worker, position_[index]});
      index = before;
      continue;
    }
    index = node.input;
    // A transfer that had to wait for those before it: the path goes back to the one that started at once.
    while (index != kNoNode && graph_.node(index).micro_batch > 0 && sent_[index - 1] > end_[index]) --index;
  }
}

}  // namespace stagecoach
