#ifndef STAGECOACH_COORDINATOR_PROGRAM_TEXT_LINE_H_
#define STAGECOACH_COORDINATOR_PROGRAM_TEXT_LINE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "coordinator/schedule/action_sheet.h"

namespace stagecoach {

// One line of a canonical text (tables, programs, timelines), read word by word. Words are parted by spaces. Errors are
// INVALID_ARGUMENT with line and column. Refers to the text; not thread-safe.
class TextLine {
 public:
  TextLine(absl::string_view text, uint32_t number);

  bool at_end() const { return next_ == words_.size(); }
  // Of the next word; `cell` counts words.
  CellPlace place() const;

  // Whether the next word begins with a digit.
  bool has_number() const;
  bool TakeIf(absl::string_view word);
  absl::Status Expect(absl::string_view word);
  absl::Status ExpectEnd();
  absl::StatusOr<absl::string_view> Word(absl::string_view what);
  absl::StatusOr<uint64_t> Number(absl::string_view what, uint64_t limit = std::numeric_limits<uint32_t>::max());
  // "#7", when it is there.
  absl::StatusOr<std::optional<uint64_t>> NumberBehindHash();
  absl::StatusOr<double> Real(absl::string_view what);  // finite
  absl::StatusOr<v1::Action> Action();
  // "stages 4": the word, then its number.
  absl::StatusOr<uint64_t> Labelled(absl::string_view label, uint64_t limit = std::numeric_limits<uint32_t>::max());

  // At the next word.
  template <typename... Parts>
  absl::Status Error(const Parts&... parts) const {
    return absl::InvalidArgumentError(absl::StrCat(Position(), parts...));
  }

 private:
  std::string Position() const;

  absl::string_view text_;
  uint32_t number_;
  std::vector<absl::string_view> words_;
  size_t next_ = 0;
};

// The lines of a text that hold anything.
std::vector<TextLine> TextLines(absl::string_view text);

// The shortest decimal that reads back to the same number.
std::string RealText(double number);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_TEXT_LINE_H_
