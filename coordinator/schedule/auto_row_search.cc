#include "coordinator/schedule/auto_row_search.h"

#include <algorithm>
#include <cmath>

namespace stagecoach {
namespace {

// How much a mean end counts against the worst.
constexpr double kMeanWeight = 0.1;
constexpr uint32_t kLongestJump = 8;

double Score(const AutoCost& cost) { return cost.worst + kMeanWeight * cost.mean; }

}  // namespace

AutoRowSearch::AutoRowSearch(const AutoGraph& graph, const AutoRows& rows, double target, uint64_t seed)
    : graph_(graph),
      target_(target),
      random_(seed),
      timing_(graph, rows),
      best_rows_(rows),
      best_cost_(timing_.cost()) {}

// Half of the moves swap two neighbours on the longest path, most others jump from there, a few start anywhere.
std::optional<AutoRowSearch::MoveChoice> AutoRowSearch::ChooseMove() {
  const uint32_t what = random_.Below(10);
  MoveChoice move = {};
  if (what == 9) {
    move.worker = random_.Below(graph_.num_workers());
    move.from = random_.Below(static_cast<uint32_t>(timing_.rows()[move.worker].size()));
  } else {
    if (critical_.empty()) return std::nullopt;
    const AutoRowTiming::Place& place = critical_[random_.Below(static_cast<uint32_t>(critical_.size()))];
    move = {place.worker, place.position, place.position - 1};
    if (what < 5) return move;
    if (random_.Coin()) --move.from;
  }
  const uint32_t jump = 1 + random_.Below(1 + random_.Below(kLongestJump));
  const bool later = random_.Coin();
  if (!later && jump > move.from) return std::nullopt;
  move.to = later ? move.from + jump : move.from - jump;
  if (move.to >= timing_.rows()[move.worker].size()) return std::nullopt;
  return move;
}

void AutoRowSearch::Keep() {
  if (Score(timing_.cost()) >= Score(best_cost_) || timing_.cost().worst > best_cost_.worst) return;
  best_cost_ = timing_.cost();
  best_rows_ = timing_.rows();
}

void AutoRowSearch::Run(const AutoCooling& cooling, uint64_t num_moves, uint64_t work) {
  double current = Score(timing_.cost());
  timing_.CriticalPlaces(random_.Next(), critical_);
  for (uint64_t i = 0; i < num_moves && timing_.work() < work && best_cost_.worst > target_; ++i) {
    const double progress = std::max(static_cast<double>(i) / static_cast<double>(num_moves),
                                     static_cast<double>(timing_.work()) / static_cast<double>(work));
    const double temperature = graph_.period() * cooling.hot * std::pow(cooling.cold / cooling.hot, progress);
    const std::optional<MoveChoice> move = ChooseMove();
    if (!move.has_value() || !timing_.Move(move->worker, move->from, move->to)) continue;
    const double next = Score(timing_.cost());
    if (next > current && random_.Unit() >= std::exp((current - next) / temperature)) {
      timing_.Undo();
      continue;
    }
    current = next;
    Keep();
    timing_.CriticalPlaces(random_.Next(), critical_);
  }
}

}  // namespace stagecoach
