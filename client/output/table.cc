#include "client/output/table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace stagecoach {
namespace {

const char* Colour(Tone tone) {
  switch (tone) {
    case Tone::kGood:
      return "\033[32m";
    case Tone::kWarning:
      return "\033[33m";
    case Tone::kBad:
      return "\033[31m";
    case Tone::kPlain:
      break;
  }
  return "";
}

// Of a terminal, for text in which each byte above 127 that does not begin a character takes no place.
size_t Width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

void AppendRow(const std::vector<Cell>& cells, const std::vector<size_t>& widths, bool colour, std::string& text) {
  for (size_t i = 0; i < cells.size(); ++i) {
    text += Coloured(cells[i], colour);
    if (i + 1 < cells.size()) text.append(widths[i] - Width(cells[i].text) + 2, ' ');
  }
  text += '\n';
}

}  // namespace

std::string Coloured(const Cell& cell, bool colour) {
  if (!colour || cell.tone == Tone::kPlain) return cell.text;
  return absl::StrCat(Colour(cell.tone), cell.text, "\033[0m");
}

std::string Printable(std::string text) {
  std::replace_if(text.begin(), text.end(), absl::ascii_iscntrl, '?');
  return text;
}

void Table::AddRow(std::vector<Cell> cells) {
  STAGECOACH_CHECK(cells.size() == headers_.size());
  for (Cell& cell : cells) cell.text = cell.text.empty() ? "-" : Printable(std::move(cell.text));
  rows_.push_back(std::move(cells));
}

std::string Table::Text(TableStyle style) const {
  std::vector<size_t> widths(headers_.size(), 0);
  for (size_t i = 0; i < headers_.size(); ++i) {
    if (style.headers) widths[i] = headers_[i].size();
    for (const std::vector<Cell>& row : rows_) widths[i] = std::max(widths[i], Width(row[i].text));
  }
  std::string text;
  if (style.headers) AppendRow({headers_.begin(), headers_.end()}, widths, false, text);
  for (const std::vector<Cell>& row : rows_) AppendRow(row, widths, style.colour, text);
  return text;
}

}  // namespace stagecoach
