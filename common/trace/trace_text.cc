#include "common/trace/trace_text.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace stagecoach {
namespace {

constexpr int kFewestColumns = 40;
constexpr int kUtilizationWidth = 7;  // " 100.0%"
constexpr char kLegend[] =
    "F forward, B backward, I backward for the input, W backward for the weights, U update, L data, + other, ~ waits "
    "for "
    "a transfer, . idle\n";

struct Look {
  char letter;
  char filling;
  const char* colour;  // of a terminal; null: none
};

Look LookOf(SpanKind kind) {
  switch (kind) {
    case SpanKind::kForward:
      return {'F', '=', "30;44"};
    case SpanKind::kBackward:
      return {'B', '=', "30;42"};
    case SpanKind::kBackwardInput:
      return {'I', '=', "30;42"};
    case SpanKind::kBackwardWeight:
      return {'W', '=', "30;43"};
    case SpanKind::kRecompute:
      return {'R', '=', "30;46"};
    case SpanKind::kUpdate:
      return {'U', '=', "30;45"};
    case SpanKind::kOther:
      return {'+', '+', "30;47"};
    case SpanKind::kLoad:
      return {'L', '=', "30;46"};
    case SpanKind::kWait:
      return {'~', '~', nullptr};
  }
  return {'+', '+', nullptr};
}

// The columns of one stage in one step.
class Row {
 public:
  Row(double begin, double end, int columns) : begin_(begin), seconds_per_column_((end - begin) / columns) {
    cells_.resize(static_cast<size_t>(columns));
  }

  // What takes most of a column is what is seen there, idle time included.
  void Add(const TraceSpan& span) {
    const double first = (span.begin - begin_) / seconds_per_column_, last = (span.end - begin_) / seconds_per_column_;
    const auto columns = static_cast<double>(cells_.size());
    for (auto i = static_cast<size_t>(std::clamp(first, 0.0, columns)); i < cells_.size(); ++i) {
      const double share = std::min(last, static_cast<double>(i + 1)) - std::max(first, static_cast<double>(i));
      if (share <= 0) break;
      Cell& cell = cells_[i];
      cell.used += share;
      if (share <= cell.share) continue;
      cell.share = share;
      cell.span = &span;
    }
  }

  std::string Text(bool colour) const {
    std::string text;
    for (size_t i = 0; i < cells_.size();) {
      const TraceSpan* span = SpanAt(i);
      size_t end = i + 1;
      while (end < cells_.size() && SpanAt(end) == span) ++end;
      absl::StrAppend(&text, RunText(span, end - i, colour));
      i = end;
    }
    return text;
  }

 private:
  struct Cell {
    const TraceSpan* span = nullptr;
    double share = 0;  // of the column, that the span takes
    double used = 0;   // that all spans take
  };

  const TraceSpan* SpanAt(size_t column) const {
    const Cell& cell = cells_[column];
    return 1 - cell.used > cell.share ? nullptr : cell.span;
  }

  static std::string RunText(const TraceSpan* span, size_t width, bool colour) {
    if (span == nullptr) return std::string(width, '.');
    const Look look = LookOf(span->kind);
    std::string text(1, look.letter);
    if (span->micro_batch.has_value() && look.filling == '=') {
      const std::string number = absl::StrCat(*span->micro_batch);
      if (1 + number.size() <= width) text += number;
    }
    text.append(width - text.size(), colour && look.filling == '=' ? ' ' : look.filling);
    return colour && look.colour != nullptr ? absl::StrCat("\x1b[", look.colour, "m", text, "\x1b[0m") : text;
  }

  const double begin_;
  const double seconds_per_column_;
  std::vector<Cell> cells_;
};

// From the first thing that belongs to the step to the last, and at least the step itself.
TraceStep ExtentOf(const PipelineTrace& trace, const TraceStep& step) {
  TraceStep extent = step;
  for (const TraceSpan& span : trace.spans) {
    if (span.step != step.step) continue;
    extent.begin = std::min(extent.begin, span.begin);
    extent.end = std::max(extent.end, span.end);
  }
  return extent;
}

std::string Percent(std::optional<double> ratio) {
  return ratio.has_value() ? absl::StrFormat("%.1f%%", *ratio * 100) : "?";
}

std::string DrawStep(const PipelineTrace& trace, const TraceStep& step, const StepUtilization& utilization,
                     const TraceTextStyle& style) {
  const size_t label_width = absl::StrCat("stage ", trace.stages.size() - 1, " ").size();
  const int columns = std::max(style.columns, kFewestColumns) - static_cast<int>(label_width) - 2 - kUtilizationWidth;
  const TraceStep extent = ExtentOf(trace, step);
  if (extent.end <= extent.begin) return absl::StrCat("step ", step.step, ": nothing took any time\n");
  std::vector<Row> rows(trace.stages.size(), Row(extent.begin, extent.end, columns));
  for (const TraceSpan& span : trace.spans) {
    if (span.step == step.step && span.stage < rows.size()) rows[span.stage].Add(span);
  }
  std::string text =
      absl::StrFormat("step %d: %.3f s, bubble %s; a column is %.3g ms\n", step.step, utilization.seconds,
                      Percent(utilization.bubble_ratio), (extent.end - extent.begin) / columns * 1e3);
  for (size_t stage = 0; stage < rows.size(); ++stage) {
    absl::StrAppendFormat(&text, "%-*s", static_cast<int>(label_width), absl::StrCat("stage ", stage));
    if (const std::string& missing = trace.stages[stage].missing; !missing.empty()) {
      absl::StrAppend(&text, "no trace: ", missing, "\n");
      continue;
    }
    absl::StrAppendFormat(&text, "|%s|%*s\n", rows[stage].Text(style.colour), kUtilizationWidth,
                          Percent(utilization.stages[stage]));
  }
  return text;
}

}  // namespace

std::string DrawTrace(const PipelineTrace& trace, const TraceTextStyle& style) {
  std::string text;
  const std::vector<StepUtilization> utilization = UtilizationOf(trace);
  for (size_t i = 0; i < trace.steps.size(); ++i) {
    absl::StrAppend(&text, DrawStep(trace, trace.steps[i], utilization[i], style), "\n");
  }
  return absl::StrCat(text, kLegend);
}

}  // namespace stagecoach
