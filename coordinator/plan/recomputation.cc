#include "coordinator/plan/recomputation.h"

#include <algorithm>
#include <cstddef>

namespace stagecoach {
namespace {

constexpr size_t kNothing = SIZE_MAX;

// The sets of options that no other set beats in both time and bytes.
class Frontier {
 public:
  Frontier(std::span<const RecomputeOption> options, uint64_t needed_bytes)
      : options_(options), needed_bytes_(needed_bytes), bytes_from_(options.size() + 1) {
    for (size_t i = options.size(); i-- > 0;) bytes_from_[i] = bytes_from_[i + 1] + options[i].bytes;
    for (const RecomputeOption& option : options) all_ticks_ += option.ticks;
  }

  std::optional<Recomputation> Cheapest() {
    if (bytes_from_[0] < needed_bytes_) return std::nullopt;
    for (uint32_t option = 0; option < options_.size(); ++option) {
      Extend(option);
      if (points_.size() > kMaxRecomputeFrontier) Thin();
    }
    // What could not free enough any more has been dropped on the way.
    return Describe(points_.front());
  }

 private:
  struct Point {
    uint64_t ticks = 0;
    uint64_t bytes = 0;       // at most those needed: more are worth nothing
    size_t trail = kNothing;  // of the last option in the set
  };
  struct Trail {
    uint32_t option;
    size_t before;
  };

  // Every set, without the option and with it, merged by time. Both sequences are sorted by time, and by bytes as well.
  void Extend(uint32_t option) {
    std::vector<Point> merged;
    merged.reserve(2 * points_.size());
    size_t without = 0;
    size_t with = 0;
    while (with < points_.size()) {
      const Point added = With(points_[with], option);
      if (without < points_.size() && points_[without].ticks <= added.ticks) {
        Keep(points_[without++], option, merged);
      } else if (Keep(added, option, merged)) {
        trails_.push_back({option, points_[with++].trail});
        merged.back().trail = trails_.size() - 1;
      } else {
        ++with;
      }
    }
    points_ = std::move(merged);
  }

  Point With(const Point& point, uint32_t option) const {
    return {.ticks = point.ticks + options_[option].ticks,
            .bytes = std::min(needed_bytes_, point.bytes + options_[option].bytes)};
  }

  bool Keep(const Point& point, uint32_t option, std::vector<Point>& merged) const {
    if (point.bytes + bytes_from_[option + 1] < needed_bytes_) return false;
    if (!merged.empty() && merged.back().bytes >= point.bytes) return false;
    if (!merged.empty() && merged.back().ticks == point.ticks) merged.pop_back();
    merged.push_back(point);
    return true;
  }

  // Of the points of a short interval of time, the last, which frees the most.
  void Thin() {
    const uint64_t interval = all_ticks_ / kMaxRecomputeFrontier + 1;
    std::vector<Point> thinned;
    for (const Point& point : points_) {
      if (!thinned.empty() && thinned.back().ticks / interval == point.ticks / interval) thinned.pop_back();
      thinned.push_back(point);
    }
    points_ = std::move(thinned);
  }

  Recomputation Describe(const Point& point) const {
    Recomputation recomputation{.ticks = point.ticks, .chosen = {}};
    for (size_t trail = point.trail; trail != kNothing; trail = trails_[trail].before) {
      recomputation.chosen.push_back(trails_[trail].option);
    }
    std::reverse(recomputation.chosen.begin(), recomputation.chosen.end());
    return recomputation;
  }

  const std::span<const RecomputeOption> options_;
  const uint64_t needed_bytes_;
  std::vector<uint64_t> bytes_from_;  // of options [i, end) together
  uint64_t all_ticks_ = 0;
  std::vector<Point> points_ = {{}};  // by time, and by bytes
  std::vector<Trail> trails_;
};

}  // namespace

std::optional<Recomputation> CheapestRecomputation(std::span<const RecomputeOption> options, uint64_t needed_bytes) {
  return Frontier(options, needed_bytes).Cheapest();
}

}  // namespace stagecoach
