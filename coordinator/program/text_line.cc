#include "coordinator/program/text_line.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/action_parser.h"
#include "common/quoted.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

bool AreDigits(absl::string_view word) {
  return !word.empty() && word.find_first_not_of("0123456789") == absl::string_view::npos;
}

std::string Shown(absl::string_view word) { return Quoted(word, 40); }

}  // namespace

TextLine::TextLine(absl::string_view text, uint32_t number)
    : text_(text), number_(number), words_(absl::StrSplit(text, absl::ByAnyChar(" \t\r"), absl::SkipEmpty())) {}

CellPlace TextLine::place() const {
  const size_t column = at_end() ? text_.size() : static_cast<size_t>(words_[next_].data() - text_.data());
  return {.line = number_, .column = static_cast<uint32_t>(column) + 1, .cell = static_cast<uint32_t>(next_) + 1};
}

std::string TextLine::Position() const {
  const CellPlace at = place();
  return absl::StrCat("line ", at.line, ", column ", at.column, ": ");
}

bool TextLine::has_number() const { return !at_end() && words_[next_].front() >= '0' && words_[next_].front() <= '9'; }

bool TextLine::TakeIf(absl::string_view word) {
  if (at_end() || words_[next_] != word) return false;
  ++next_;
  return true;
}

absl::Status TextLine::Expect(absl::string_view word) {
  if (TakeIf(word)) return absl::OkStatus();
  return Error("expected ", word, at_end() ? ", but the line ends" : ", not ", at_end() ? "" : Shown(words_[next_]));
}

absl::Status TextLine::ExpectEnd() {
  return at_end() ? absl::OkStatus() : Error("expected the end of the line, not ", Shown(words_[next_]));
}

absl::StatusOr<absl::string_view> TextLine::Word(absl::string_view what) {
  if (at_end()) return Error("expected ", what, ", but the line ends");
  const absl::string_view word = words_[next_];
  // A message may hold valid UTF-8 alone.
  if (!std::all_of(word.begin(), word.end(), [](unsigned char c) { return absl::ascii_isgraph(c); })) {
    return Error(Shown(word), " is no ", what, "; ASCII letters, digits and signs are");
  }
  ++next_;
  return word;
}

absl::StatusOr<uint64_t> TextLine::Number(absl::string_view what, uint64_t limit) {
  if (at_end()) return Error("expected ", what, ", but the line ends");
  uint64_t number = 0;
  if (!AreDigits(words_[next_]) || !absl::SimpleAtoi(words_[next_], &number) || number > limit) {
    return Error(Shown(words_[next_]), " is no ", what, "; a number from 0 to ", limit, " is");
  }
  ++next_;
  return number;
}

absl::StatusOr<std::optional<uint64_t>> TextLine::NumberBehindHash() {
  if (at_end() || words_[next_].front() != '#') return std::nullopt;
  uint64_t number = 0;
  const absl::string_view digits = words_[next_].substr(1);
  if (!AreDigits(digits) || !absl::SimpleAtoi(digits, &number)) return Error(Shown(words_[next_]), " is no #number");
  ++next_;
  return number;
}

absl::StatusOr<double> TextLine::Real(absl::string_view what) {
  if (at_end()) return Error("expected ", what, ", but the line ends");
  const absl::string_view word = words_[next_];
  double number = 0;
  const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (code != std::errc() || end != word.data() + word.size() || !std::isfinite(number)) {
    return Error(Shown(word), " is no ", what, "; a finite number is");
  }
  ++next_;
  return number;
}

absl::StatusOr<v1::Action> TextLine::Action() {
  if (at_end()) return Error("expected an action, but the line ends");
  absl::StatusOr<v1::Action> action = ParseActionText(words_[next_]);
  if (!action.ok()) return Error(Shown(words_[next_]), " is no action: ", action.status().message());
  ++next_;
  return action;
}

absl::StatusOr<uint64_t> TextLine::Labelled(absl::string_view label, uint64_t limit) {
  STAGECOACH_RETURN_IF_ERROR(Expect(label));
  return Number(absl::StrCat("number of ", label), limit);
}

std::vector<TextLine> TextLines(absl::string_view text) {
  std::vector<TextLine> lines;
  uint32_t number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    lines.emplace_back(line, number);
    if (lines.back().at_end()) lines.pop_back();
  }
  return lines;
}

std::string RealText(double number) {
  char text[32];
  const auto [end, code] = std::to_chars(text, text + sizeof(text), number == 0 ? 0.0 : number);  // no "-0"
  return code == std::errc() ? std::string(text, end) : "nan";
}

}  // namespace stagecoach
