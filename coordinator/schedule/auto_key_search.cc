#include "coordinator/schedule/auto_key_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace stagecoach {
namespace {

using Depth = AutoKeyPattern::Depth;

constexpr uint32_t kNumChains = 3;
// Share of the lists that the grid may take.
constexpr double kGridShare = 0.3;
// Temperatures in periods; how much a mean end counts against the worst.
constexpr double kHot = 0.01;
constexpr double kCold = 0.0004;
constexpr double kMeanWeight = 0.1;

std::vector<AutoKeyPattern> Patterns() {
  std::vector<AutoKeyPattern> patterns;
  for (const double forward : {1.0, 1.5, 2.0, 3.0}) {
    for (const double input : {1.0, 1.5, 2.0, 3.0}) {
      for (const double delay : {0.0, 0.5, 2.0, 1e3}) {
        for (const double patience : {0.0, 0.6, 1.0}) {
          for (const Depth depth : {Depth::kUnlimited, Depth::kFalling, Depth::kLevel}) {
            patterns.push_back({forward, input, delay, patience, depth});
          }
        }
      }
    }
  }
  return patterns;
}

uint32_t DepthOf(const AutoGraph& graph, Depth depth, uint32_t worker) {
  switch (depth) {
    case Depth::kUnlimited:
      return graph.num_chunks() * std::max(graph.num_micro_batches(), graph.num_workers());
    case Depth::kFalling:
      return graph.num_chunks() * (graph.num_workers() - worker);
    case Depth::kLevel:
      return graph.num_chunks() * graph.num_workers();
  }
  return 0;
}

}  // namespace

AutoKeySearch::AutoKeySearch(const AutoGraph& graph, double target, uint64_t seed)
    : graph_(graph), target_(target), random_(seed), scheduler_(graph) {
  best_cost_.worst = std::numeric_limits<double>::infinity();
}

bool AutoKeySearch::Done() const { return best_cost_.worst <= target_; }

AutoKeys AutoKeySearch::KeysOf(const AutoKeyPattern& pattern) const {
  AutoKeys keys = {.key = std::vector<double>(graph_.size()), .depth = {}, .patience = pattern.patience};
  const auto set = [&](uint32_t stage, AutoKind kind, double seconds) {
    const uint32_t first = graph_.Index(stage, kind, 0);
    for (uint32_t i = 0; i < graph_.num_micro_batches(); ++i) keys.key[first + i] = seconds + i * graph_.period();
  };
  double seconds = 0;
  for (uint32_t stage = 0; stage < graph_.num_stages(); ++stage) {
    set(stage, AutoKind::kForward, seconds);
    const AutoNode& node = graph_.node(graph_.Index(stage, AutoKind::kForward, 0));
    seconds += pattern.forward_stride * node.duration + node.edge_seconds + node.latency;
  }
  for (uint32_t stage = graph_.num_stages(); stage-- > 0;) {
    set(stage, AutoKind::kBackwardInput, seconds);
    const AutoNode& node = graph_.node(graph_.Index(stage, AutoKind::kBackwardInput, 0));
    set(stage, AutoKind::kBackwardWeight, seconds + node.duration + pattern.weight_delay * graph_.period());
    seconds += pattern.input_stride * node.duration + node.edge_seconds + node.latency;
  }
  for (uint32_t worker = 0; worker < graph_.num_workers(); ++worker) {
    keys.depth.push_back(DepthOf(graph_, pattern.depth, worker));
  }
  return keys;
}

AutoCost AutoKeySearch::Try(const AutoKeys& keys) {
  const AutoCost cost = scheduler_.Run(keys);
  if (cost.worst < best_cost_.worst || (cost.worst == best_cost_.worst && cost.mean < best_cost_.mean)) {
    best_cost_ = cost;
    best_rows_ = scheduler_.rows();
  }
  return cost;
}

// The best first.
std::vector<AutoKeySearch::Candidate> AutoKeySearch::TryPatterns(uint32_t num_lists) {
  const std::vector<AutoKeyPattern> patterns = Patterns();
  // A stride that is coprime to their number spreads a few tries over all of the grid.
  constexpr size_t kStride = 211;
  std::vector<Candidate> candidates;
  const size_t num_tries = std::min<size_t>(patterns.size(), num_lists);
  for (size_t i = 0; i < num_tries && !Done(); ++i) {
    const AutoKeyPattern& pattern = patterns[i * kStride % patterns.size()];
    candidates.push_back({Try(KeysOf(pattern)).worst, pattern});
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
  return candidates;
}

void AutoKeySearch::Run(uint32_t num_lists) {
  const uint32_t num_tries = std::max(kNumChains, static_cast<uint32_t>(num_lists * kGridShare));
  const std::vector<Candidate> candidates = TryPatterns(num_tries);
  const uint32_t num_left = num_lists - std::min(num_lists, static_cast<uint32_t>(candidates.size()));
  for (size_t chain = 0; chain < std::min<size_t>(kNumChains, candidates.size()) && !Done(); ++chain) {
    Anneal(KeysOf(candidates[chain].pattern), num_left / kNumChains);
  }
}

void AutoKeySearch::Anneal(AutoKeys keys, uint32_t num_lists) {
  const auto score = [](const AutoCost& cost) { return cost.worst + kMeanWeight * cost.mean; };
  double current = score(Try(keys));
  for (uint32_t i = 0; i < num_lists && !Done(); ++i) {
    const double temperature = graph_.period() * kHot * std::pow(kCold / kHot, static_cast<double>(i) / num_lists);
    const uint32_t what = random_.Below(10);
    Shift shift;
    const double old_patience = keys.patience;
    std::vector<uint32_t> old_depth;
    if (what == 9) {
      keys.patience = std::clamp(keys.patience + 0.3 * random_.Normal(), 0.0, 1.5);
    } else if (what == 8) {
      old_depth = keys.depth;
      ChangeDepth(keys);
    } else {
      shift = RandomShift();
      Apply(shift, 1, keys);
    }
    const double next = score(Try(keys));
    if (next <= current || random_.Unit() < std::exp((current - next) / temperature)) {
      current = next;
      continue;
    }
    Apply(shift, -1, keys);
    keys.patience = old_patience;
    if (!old_depth.empty()) keys.depth = std::move(old_depth);
  }
}

AutoKeySearch::Shift AutoKeySearch::RandomShift() {
  const uint32_t num_stages = graph_.num_stages();
  Shift shift = {.kind = random_.Below(kNumAutoKinds), .last_stage = num_stages};
  // A hundredth of a period to a whole one.
  shift.seconds = graph_.period() * std::pow(10, -2 * random_.Unit()) * random_.Normal();
  const uint32_t stages = random_.Below(8);
  if (stages < 6) {
    shift.first_stage = random_.Below(num_stages);
    shift.last_stage = shift.first_stage + 1;
  } else if (stages == 6) {
    shift.tilted = true;
  } else if (random_.Coin()) {
    shift.first_stage = random_.Below(num_stages);
  } else {
    shift.last_stage = 1 + random_.Below(num_stages);
  }
  ChooseWindow(shift);
  return shift;
}

void AutoKeySearch::ChooseWindow(Shift& shift) {
  const uint32_t m = graph_.num_micro_batches();
  shift.last = m;
  switch (random_.Below(4)) {
    case 0:
      break;  // all
    case 1:
      shift.first = random_.Below(m);
      break;
    case 2:
      shift.last = 1 + random_.Below(m);
      break;
    default:
      shift.first = random_.Below(m);
      shift.last = std::min(m, shift.first + 1 + random_.Below(4));
  }
  shift.ramped = random_.Below(3) == 0;
}

void AutoKeySearch::Apply(const Shift& shift, double sign, AutoKeys& keys) const {
  const uint32_t last = shift.ramped ? graph_.num_micro_batches() : shift.last;
  const double window = shift.last - shift.first;
  for (uint32_t stage = shift.first_stage; stage < shift.last_stage; ++stage) {
    const double seconds = sign * shift.seconds * (shift.tilted ? 4.0 * stage / graph_.num_stages() : 1);
    const uint32_t start = graph_.Index(stage, static_cast<AutoKind>(shift.kind), 0);
    for (uint32_t i = shift.first; i < last; ++i) {
      keys.key[start + i] += shift.ramped ? seconds * (i - shift.first + 1) / window : seconds;
    }
  }
}

void AutoKeySearch::ChangeDepth(AutoKeys& keys) {
  uint32_t& depth = keys.depth[random_.Below(graph_.num_workers())];
  const uint32_t step = 1 + random_.Below(3);
  const uint32_t low = graph_.num_chunks();
  const uint32_t high = std::max(low, 2 * graph_.num_workers() * graph_.num_chunks());
  depth = std::min(depth, high);  // beyond that it limits nothing
  depth = random_.Coin() ? depth + step : std::max(low, depth - std::min(depth, step));
}

}  // namespace stagecoach
