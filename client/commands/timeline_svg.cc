#include "client/commands/timeline_svg.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/action_text.h"
#include "coordinator/program/critical_path.h"

namespace stagecoach {
namespace {

constexpr double kRowHeight = 34;
constexpr double kBarHeight = 26;
constexpr double kTop = 44;  // of the first row, below the title
constexpr double kCharacterWidth = 6.2;
constexpr double kMinChartWidth = 640;
constexpr double kMaxChartWidth = 6000;

struct KindStyle {
  v1::ActionKind kind;
  const char* name;
  const char* fill;
};
// From light to dark: F, I, B, W; R is a forward.
constexpr KindStyle kKinds[] = {{v1::ACTION_KIND_FORWARD, "forward (F)", "#cfe3f5"},
                                {v1::ACTION_KIND_RECOMPUTE, "recomputation (R)", "#b9a9d6"},
                                {v1::ACTION_KIND_BACKWARD_INPUT, "input gradient (I)", "#fdd49e"},
                                {v1::ACTION_KIND_BACKWARD, "backward (B)", "#f4a259"},
                                {v1::ACTION_KIND_BACKWARD_WEIGHT, "weight gradient (W)", "#7fb685"}};

const char* FillOf(v1::ActionKind kind) {
  for (const KindStyle& style : kKinds) {
    if (style.kind == kind) return style.fill;
  }
  return "#ffffff";
}

std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

std::string Text(double x, double y, const std::string& attributes, const std::string& text) {
  return absl::StrFormat("<text x=\"%.2f\" y=\"%.2f\"%s>%s</text>\n", x, y, attributes, Escaped(text));
}

class Drawing {
 public:
  explicit Drawing(const Timeline& timeline) : timeline_(timeline) {
    for (const PathStep& step : CriticalPath(timeline)) {
      critical_.insert({step.worker, step.timed.start, ActionText(step.timed.action)});
    }
    for (const std::vector<TimedAction>& row : timeline.workers) AddRow(row);
    margin_ = 16;
    for (size_t worker = 0; worker < timeline.workers.size(); ++worker) {
      margin_ = std::max(margin_, 24 + kCharacterWidth * 1.1 * static_cast<double>(RowName(worker).size()));
    }
    chart_width_ = ChartWidth();
  }

  std::string Draw(const std::string& title) {
    const double height = kTop + kRowHeight * static_cast<double>(timeline_.workers.size()) + 96;
    const double width = std::max(margin_ + chart_width_ + 24, kLegendWidth);
    absl::StrAppendFormat(&svg_,
                          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f "
                          "%.0f\" font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\" font-size=\"11\">\n",
                          width, height, width, height);
    absl::StrAppend(&svg_, "<title>", Escaped(title), "</title>\n",
                    "<defs><pattern id=\"later\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
                    "patternTransform=\"rotate(45)\"><rect width=\"1.1\" height=\"5\" fill=\"#333333\" "
                    "fill-opacity=\"0.35\"/></pattern></defs>\n",
                    "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n");
    svg_ += Text(16, 24, " font-size=\"14\" font-weight=\"bold\"", title);
    DrawAxis();
    for (size_t worker = 0; worker < timeline_.workers.size(); ++worker) DrawRow(worker);
    DrawLegend(kTop + kRowHeight * static_cast<double>(timeline_.workers.size()) + 52);
    return absl::StrCat(svg_, "</svg>\n");
  }

 private:
  static constexpr double kLegendWidth = 860;

  void AddRow(const std::vector<TimedAction>& row) {
    std::set<uint32_t> stages;
    for (const TimedAction& timed : row) {
      stages.insert(timed.action.stage());
      kinds_.insert(timed.action.kind());
      const double seconds = timed.end - timed.start;
      if (seconds > 0 && (shortest_ == 0 || seconds < shortest_)) shortest_ = seconds;
    }
    has_chunks_ |= stages.size() > 1;
    stages_of_worker_.emplace_back(stages.begin(), stages.end());
  }

  // Room for the text in the shortest bar, if that is not too wide altogether.
  double ChartWidth() const {
    if (timeline_.makespan <= 0 || shortest_ <= 0) return kMinChartWidth;
    return std::clamp(34 * timeline_.makespan / shortest_, kMinChartWidth, kMaxChartWidth);
  }

  std::string RowName(size_t worker) const {
    const std::vector<uint32_t>& stages = stages_of_worker_[worker];
    return absl::StrCat("worker ", worker, stages.size() == 1 ? ", stage " : ", stages ", absl::StrJoin(stages, ", "));
  }

  double X(double seconds) const {
    return margin_ + (timeline_.makespan > 0 ? seconds / timeline_.makespan * chart_width_ : 0);
  }
  double Y(size_t worker) const { return kTop + kRowHeight * static_cast<double>(worker); }

  void DrawRow(size_t worker) {
    const double y = Y(worker);
    svg_ += Text(margin_ - 8, y + 18, " text-anchor=\"end\"", RowName(worker));
    absl::StrAppendFormat(&svg_,
                          "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.0f\" fill=\"#f2f2f2\" "
                          "stroke=\"#bbbbbb\" stroke-width=\"0.5\"/>\n",
                          margin_, y, chart_width_, kBarHeight);
    for (const bool critical : {false, true}) {  // those on top last
      for (const TimedAction& timed : timeline_.workers[worker]) {
        if (IsCritical(worker, timed) == critical) DrawBar(worker, timed, critical);
      }
    }
  }

  bool IsCritical(size_t worker, const TimedAction& timed) const {
    return critical_.contains({worker, timed.start, ActionText(timed.action)});
  }

  void DrawBar(size_t worker, const TimedAction& timed, bool critical) {
    const double x = X(timed.start);
    const double width = X(timed.end) - x;
    const double y = Y(worker);
    const std::string text = ActionText(timed.action);
    const std::string shape =
        absl::StrFormat("x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.0f\"", x, y, width, kBarHeight);
    absl::StrAppend(&svg_, "<g><title>", text, ", worker ", worker,
                    absl::StrFormat(", %g to %g", timed.start, timed.end), critical ? ", on the critical path" : "",
                    "</title><rect ", shape, " fill=\"", FillOf(timed.action.kind()),
                    "\" stroke=\"#222222\" stroke-width=\"", critical ? "2" : "0.6", "\"/>");
    if (timed.action.stage() != stages_of_worker_[worker].front()) {
      absl::StrAppend(&svg_, "<rect ", shape, " fill=\"url(#later)\"/>");
    }
    if (width >= kCharacterWidth * static_cast<double>(text.size()) + 3) {
      svg_ += absl::StrFormat("<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"middle\" fill=\"#111111\">%s</text>",
                              x + width / 2, y + 17, text);
    }
    svg_ += "</g>\n";
  }

  // About eight ticks at round numbers.
  void DrawAxis() {
    if (timeline_.makespan <= 0) return;
    const double rough = timeline_.makespan / 8;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    double step = power;
    for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
      step = power * factor;
      if (step >= rough) break;
    }
    const double bottom = Y(timeline_.workers.size()) - (kRowHeight - kBarHeight);
    for (int i = 0; i * step <= timeline_.makespan * (1 + 1e-9); ++i) {
      const double x = X(i * step);
      absl::StrAppendFormat(&svg_,
                            "<line x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\" stroke=\"#999999\" "
                            "stroke-width=\"0.5\"/>\n",
                            x, kTop - 4, x, bottom + 6);
      svg_ += Text(x, bottom + 19, " text-anchor=\"middle\" fill=\"#444444\"", absl::StrFormat("%g", i * step));
    }
  }

  void DrawLegend(double y) {
    double x = 16;
    const auto entry = [&](const std::string& fill, const std::string& stroke_width, const std::string& text) {
      absl::StrAppendFormat(&svg_,
                            "<rect x=\"%.2f\" y=\"%.2f\" width=\"18\" height=\"12\" fill=\"%s\" stroke=\"#222222\" "
                            "stroke-width=\"%s\"/>\n",
                            x, y - 10, fill, stroke_width);
      svg_ += Text(x + 24, y, "", text);
      x += 46 + kCharacterWidth * static_cast<double>(text.size());
    };
    for (const KindStyle& style : kKinds) {
      if (kinds_.contains(style.kind)) entry(style.fill, "0.6", style.name);
    }
    entry("#f2f2f2", "0.5", "idle");
    if (has_chunks_) entry("url(#later)", "0.6", "not the worker's first stage");
    entry("#ffffff", "2", "on the critical path");
    svg_ += Text(16, y + 22, " fill=\"#444444\"", "2F0 is the forward of micro-batch 0 on stage 2");
  }

  const Timeline& timeline_;
  std::set<std::tuple<size_t, double, std::string>> critical_;
  std::set<v1::ActionKind> kinds_;
  std::vector<std::vector<uint32_t>> stages_of_worker_;
  double shortest_ = 0;
  double margin_ = 0;
  double chart_width_ = 0;
  bool has_chunks_ = false;
  std::string svg_;
};

}  // namespace

std::string TimelineSvg(const Timeline& timeline, const std::string& title) { return Drawing(timeline).Draw(title); }

}  // namespace stagecoach
