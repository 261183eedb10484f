#include "client/commands/timeline_text.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/action_text.h"

namespace stagecoach {
namespace {

char Symbol(const v1::Action& action) {
  const auto count_from = [&action](char first, uint32_t period) {
    return static_cast<char>(first + static_cast<int>(action.micro_batch() % period));
  };
  if (action.kind() == v1::ACTION_KIND_FORWARD) return count_from('0', 10);
  if (action.kind() == v1::ACTION_KIND_RECOMPUTE) return '+';
  return count_from(action.kind() == v1::ACTION_KIND_BACKWARD_WEIGHT ? 'A' : 'a', 26);
}

bool HasRecomputation(const Timeline& timeline) {
  return std::any_of(timeline.workers.begin(), timeline.workers.end(), [](const std::vector<TimedAction>& row) {
    return std::any_of(row.begin(), row.end(),
                       [](const TimedAction& timed) { return timed.action.kind() == v1::ACTION_KIND_RECOMPUTE; });
  });
}

// All starts and ends are whole multiples of it; 0: there is none as long as the shortest action.
double UnitOf(const Timeline& timeline) {
  constexpr double kRounding = 1e-6;
  double unit = 0;
  for (const std::vector<TimedAction>& row : timeline.workers) {
    for (const TimedAction& timed : row) {
      const double seconds = timed.end - timed.start;
      if (seconds > 0 && (unit == 0 || seconds < unit)) unit = seconds;
    }
  }
  const auto is_whole = [unit](double seconds) {
    return std::abs(seconds / unit - std::round(seconds / unit)) < kRounding;
  };
  for (const std::vector<TimedAction>& row : timeline.workers) {
    for (const TimedAction& timed : row) {
      if (unit == 0 || timed.end <= timed.start || !is_whole(timed.start) || !is_whole(timed.end)) return 0;
    }
  }
  return unit;
}

size_t LongestText(const Timeline& timeline) {
  size_t longest = 0;
  for (const std::vector<TimedAction>& row : timeline.workers) {
    for (const TimedAction& timed : row) longest = std::max(longest, ActionText(timed.action).size());
  }
  return longest;
}

// One row; a slot is `width` characters and a space.
std::string SlotRow(const std::vector<TimedAction>& row, double unit, size_t num_slots, size_t width) {
  const auto slot_at = [unit](double seconds) { return static_cast<size_t>(std::lround(seconds / unit)); };
  std::string text(num_slots * (width + 1), ' ');
  for (size_t slot = 0; slot < num_slots; ++slot) text[slot * (width + 1)] = '.';
  for (const TimedAction& timed : row) {
    const size_t first = slot_at(timed.start) * (width + 1);
    const size_t end = slot_at(timed.end) * (width + 1) - 1;
    std::string action = ActionText(timed.action);
    // What lasts longer than a slot is drawn out over them.
    if (end - first > width) action.resize(end - first, '-');
    text.replace(first, action.size(), action);
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

std::string ScaledText(const Timeline& timeline, int columns) {
  std::string text;
  for (size_t worker = 0; worker < timeline.workers.size(); ++worker) {
    std::string row(static_cast<size_t>(columns), '.');
    for (const TimedAction& timed : timeline.workers[worker]) {
      const auto column = [&](double time) {
        return std::clamp(static_cast<int>(std::lround(time / timeline.makespan * columns)), 0, columns);
      };
      for (int i = column(timed.start); i < column(timed.end); ++i) row[static_cast<size_t>(i)] = Symbol(timed.action);
    }
    absl::StrAppend(&text, absl::StrFormat("worker %-3d |%s|\n", worker, row));
  }
  absl::StrAppend(&text, "0-9: forward of a micro-batch (last digit), a-z: backward, A-Z: weight gradient apart, ",
                  HasRecomputation(timeline) ? "+: recomputation, " : "", "dot: idle\n");
  return text;
}

}  // namespace

std::optional<std::string> SlotText(const Timeline& timeline, int columns) {
  constexpr size_t kMargin = 11;  // "worker 0   "
  const double unit = UnitOf(timeline);
  if (unit == 0) return std::nullopt;
  const double num_slots = timeline.makespan / unit;
  const size_t width = LongestText(timeline);
  if (num_slots * static_cast<double>(width + 1) + kMargin > columns) return std::nullopt;
  std::string text;
  for (size_t worker = 0; worker < timeline.workers.size(); ++worker) {
    const std::string row = SlotRow(timeline.workers[worker], unit, static_cast<size_t>(std::lround(num_slots)), width);
    absl::StrAppend(&text, absl::StrFormat("worker %-3d ", worker), row, "\n");
  }
  return text;
}

std::string TimelineText(const Timeline& timeline, int columns) {
  if (timeline.makespan <= 0) return "nothing takes any time\n";
  if (const std::optional<std::string> slots = SlotText(timeline, columns); slots.has_value()) {
    return absl::StrCat(*slots, "2F0: forward of micro-batch 0 on stage 2, B: backward, I and W: its two parts, ",
                        HasRecomputation(timeline) ? "R: recomputation, " : "", "dot: idle\n");
  }
  return ScaledText(timeline, columns);
}

}  // namespace stagecoach
