#include "coordinator/schedule/action_sheet.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/action_parser.h"
#include "common/action_text.h"
#include "common/quoted.h"
#include "common/status_macros.h"
#include "coordinator/schedule/compute_table.h"

namespace stagecoach {
namespace {

constexpr absl::string_view kOverlap = "OVERLAP_F_B";
constexpr size_t kMaxCells = 16 * kMaxForwards;  // with transfers: as many as the largest table has, and some more

struct ShardingName {
  absl::string_view name;
  ShardingKind kind;
};
constexpr ShardingName kShardingNames[] = {{"UNSHARD", ShardingKind::kUnshard},
                                           {"RESHARD", ShardingKind::kReshard},
                                           {"REDUCE_GRAD", ShardingKind::kReduceGradient}};

absl::Status Refuse(const CellPlace& place, absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("line ", place.line, ", column ", place.column, " (cell ", place.cell,
                                                 "): ", Quoted(text, 40), " is no action: ", why));
}

class CsvReader {
 public:
  absl::StatusOr<ActionSheet> Read(absl::string_view text) {
    for (uint32_t line = 1; !text.empty(); ++line) {
      const size_t end = std::min(text.find('\n'), text.size());
      STAGECOACH_RETURN_IF_ERROR(ReadLine(absl::StripSuffix(text.substr(0, end), "\r"), line));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    while (!sheet_.rows.empty() && sheet_.rows.back().empty()) sheet_.rows.pop_back();
    if (sheet_.rows.empty()) return absl::InvalidArgumentError("there are no actions");
    if (sheet_.rows.size() > kMaxStages) {
      return absl::InvalidArgumentError(
          absl::StrCat(sheet_.rows.size(), " lines, one a worker; at most ", kMaxStages, " are possible"));
    }
    return std::move(sheet_);
  }

 private:
  absl::Status ReadLine(absl::string_view text, uint32_t line) {
    sheet_.rows.emplace_back();
    CellPlace place{.line = line, .column = 1, .cell = 1};
    while (true) {
      const size_t end = std::min(text.find(','), text.size());
      STAGECOACH_RETURN_IF_ERROR(ReadCell(text.substr(0, end), place));
      if (end == text.size()) return absl::OkStatus();
      text.remove_prefix(end + 1);
      place.column += static_cast<uint32_t>(end) + 1;
      ++place.cell;
    }
  }

  absl::Status ReadCell(absl::string_view text, CellPlace place) {
    const absl::string_view inner = absl::StripLeadingAsciiWhitespace(text);
    place.column += static_cast<uint32_t>(text.size() - inner.size());
    text = absl::StripTrailingAsciiWhitespace(inner);
    if (text.empty()) return absl::OkStatus();
    if (text.front() == '(') return ReadOverlap(text, place);
    return AddAction(text, place);
  }

  // "(0F4;7B0)OVERLAP_F_B"
  absl::Status ReadOverlap(absl::string_view text, CellPlace place) {
    const absl::string_view whole = text;
    text.remove_prefix(1);
    const size_t close = text.find(')');
    if (close == absl::string_view::npos || absl::StripLeadingAsciiWhitespace(text.substr(close + 1)) != kOverlap) {
      return Refuse(place, whole, "actions that overlap are written (0F4;7B0)OVERLAP_F_B");
    }
    text = text.substr(0, close);
    ++place.column;
    while (true) {
      const size_t end = std::min(text.find(';'), text.size());
      const absl::string_view part = text.substr(0, end);
      const absl::string_view inner = absl::StripLeadingAsciiWhitespace(part);
      CellPlace part_place = place;
      part_place.column += static_cast<uint32_t>(part.size() - inner.size());
      STAGECOACH_RETURN_IF_ERROR(AddAction(absl::StripTrailingAsciiWhitespace(inner), part_place));
      if (end == text.size()) return absl::OkStatus();
      text.remove_prefix(end + 1);
      place.column += static_cast<uint32_t>(end) + 1;
    }
  }

  absl::Status AddAction(absl::string_view text, const CellPlace& place) {
    if (++num_cells_ > kMaxCells) return absl::InvalidArgumentError(absl::StrCat("more than ", kMaxCells, " actions"));
    const absl::StatusOr<ActionWord> word = SplitActionWord(text);
    if (!word.ok()) return Refuse(place, text, word.status().message());
    SheetCell cell{.action = {}, .sharding = ShardingKind::kNone, .place = place};
    for (const auto& [name, kind] : kShardingNames) {
      if (word->kind == name) cell.sharding = kind;
    }
    if (cell.sharding != ShardingKind::kNone) {
      cell.action.set_stage(word->stage);
    } else {
      absl::StatusOr<v1::Action> action = ActionOfWord(*word);
      if (!action.ok()) return Refuse(place, text, action.status().message());
      cell.action = *std::move(action);
    }
    sheet_.rows.back().push_back(std::move(cell));
    return absl::OkStatus();
  }

  ActionSheet sheet_;
  size_t num_cells_ = 0;
};

}  // namespace

std::string CellText(const SheetCell& cell) {
  for (const auto& [name, kind] : kShardingNames) {
    if (cell.sharding == kind) return absl::StrCat(cell.action.stage(), name);
  }
  return ActionText(cell.action);
}

std::string PlaceText(const SheetCell& cell) {
  return absl::StrCat("line ", cell.place.line, ", column ", cell.place.column, " (cell ", cell.place.cell, ", ",
                      CellText(cell), ")");
}

absl::StatusOr<ActionSheet> ReadActionCsv(absl::string_view text) { return CsvReader().Read(text); }

}  // namespace stagecoach
