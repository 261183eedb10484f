#ifndef STAGECOACH_CLIENT_OUTPUT_TABLE_H_
#define STAGECOACH_CLIENT_OUTPUT_TABLE_H_

#include <string>
#include <vector>

namespace stagecoach {

// Never the only sign: the text says the same.
enum class Tone { kPlain, kGood, kWarning, kBad };

struct Cell {
  Cell(std::string cell_text, Tone cell_tone = Tone::kPlain)  // NOLINT: a text is a cell
      : text(std::move(cell_text)), tone(cell_tone) {}
  Cell(const char* cell_text) : text(cell_text) {}  // NOLINT
  std::string text;
  Tone tone = Tone::kPlain;
};

struct TableStyle {
  bool headers = true;
  bool colour = false;
};

// Columns as wide as they must be, two spaces apart; nothing is cut. An empty cell is printed as "-", so that scripts
// that split at spaces find every column; control characters as "?", since names and messages may come from anywhere.
class Table {
 public:
  explicit Table(std::vector<std::string> headers) : headers_(std::move(headers)) {}
  void AddRow(std::vector<Cell> cells);  // as many as there are headers
  std::string Text(TableStyle style) const;

 private:
  std::vector<std::string> headers_;
  std::vector<std::vector<Cell>> rows_;
};

std::string Coloured(const Cell& cell, bool colour);
// Without what would steer a terminal.
std::string Printable(std::string text);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_OUTPUT_TABLE_H_
