#include "coordinator/program/memory_curve.h"

#include <algorithm>
#include <cstdint>
#include <set>

namespace stagecoach {
namespace {

struct Shape {
  uint32_t num_stages = 1;
  std::set<uint32_t> recomputing = {};  // stages
  std::set<uint32_t> with_input = {};   // that have an I or B
  std::set<uint32_t> with_weight = {};  // that have a W or B
};

Shape ShapeOf(const Timeline& timeline) {
  Shape shape;
  for (const std::vector<TimedAction>& row : timeline.workers) {
    for (const TimedAction& timed : row) {
      const uint32_t stage = timed.action.stage();
      const v1::ActionKind kind = timed.action.kind();
      const bool is_whole = kind == v1::ACTION_KIND_BACKWARD;
      shape.num_stages = std::max(shape.num_stages, stage + 1);
      if (kind == v1::ACTION_KIND_RECOMPUTE) shape.recomputing.insert(stage);
      if (is_whole || kind == v1::ACTION_KIND_BACKWARD_INPUT) shape.with_input.insert(stage);
      if (is_whole || kind == v1::ACTION_KIND_BACKWARD_WEIGHT) shape.with_weight.insert(stage);
    }
  }
  return shape;
}

}  // namespace

std::vector<std::vector<MemoryPoint>> MemoryCurves(const Timeline& timeline) {
  const Shape shape = ShapeOf(timeline);
  const double unit = static_cast<double>(timeline.workers.size()) / shape.num_stages;
  std::vector<std::vector<MemoryPoint>> curves;
  for (const std::vector<TimedAction>& row : timeline.workers) {
    std::vector<MemoryPoint>& points = curves.emplace_back();
    int held = 0;
    int pending = 0;
    const auto change = [&](double seconds, int held_more, int pending_more) {
      if (held_more == 0 && pending_more == 0) return;
      held += held_more;
      pending += pending_more;
      points.push_back({seconds, held * unit, pending * unit});
    };
    for (const TimedAction& timed : row) {
      const v1::ActionKind kind = timed.action.kind();
      const uint32_t stage = timed.action.stage();
      const bool is_forward = kind == v1::ACTION_KIND_FORWARD;
      const bool is_input = kind == v1::ACTION_KIND_BACKWARD_INPUT;
      const bool has_weight = shape.with_weight.contains(stage);
      const bool makes_activations = is_forward || kind == v1::ACTION_KIND_RECOMPUTE;
      const bool keeps_nothing = is_forward && (!shape.with_input.contains(stage) || shape.recomputing.contains(stage));
      const bool ends_pending = kind == v1::ACTION_KIND_BACKWARD_WEIGHT || kind == v1::ACTION_KIND_BACKWARD;
      const bool ends_micro_batch = ends_pending || (is_input && !has_weight);
      const bool makes_pending = kind == v1::ACTION_KIND_BACKWARD || (is_input && has_weight);
      change(timed.start, makes_activations ? 1 : 0, makes_pending ? 1 : 0);
      change(timed.end, ends_micro_batch || keeps_nothing ? -1 : 0, ends_pending ? -1 : 0);
    }
  }
  return curves;
}

}  // namespace stagecoach
