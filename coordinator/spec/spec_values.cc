#include "coordinator/spec/spec_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/quoted.h"
#include "coordinator/spec/spec_text.h"

namespace stagecoach {
namespace {

constexpr size_t kMaxNameBytes = 63;
constexpr size_t kMaxPathBytes = 4096;

enum class NumberForm { kNone, kInteger, kNumber, kNotFinite };

bool IsNotFinite(absl::string_view text) {
  std::string word = absl::AsciiStrToLower(absl::StripPrefix(absl::StripPrefix(text, "-"), "+"));
  if (absl::StartsWith(word, ".")) word.erase(0, 1);
  return word == "nan" || word == "inf" || word == "infinity";
}

NumberForm FormOf(absl::string_view text) {
  if (IsNotFinite(text)) return NumberForm::kNotFinite;
  size_t i = 0;
  const auto skip_digits = [&] {
    const size_t start = i;
    while (i < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[i]))) ++i;
    return i - start;
  };
  if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
  size_t digits = skip_digits();
  bool integer = true;
  if (i < text.size() && text[i] == '.') {
    integer = false;
    ++i;
    digits += skip_digits();
  }
  if (digits == 0) return NumberForm::kNone;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    integer = false;
    ++i;
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    if (skip_digits() == 0) return NumberForm::kNone;
  }
  if (i != text.size()) return NumberForm::kNone;
  return integer ? NumberForm::kInteger : NumberForm::kNumber;
}

bool IsOneOf(absl::string_view text, std::initializer_list<absl::string_view> words) {
  const std::string lower = absl::AsciiStrToLower(text);
  return std::find(words.begin(), words.end(), lower) != words.end();
}

std::string Describe(const SpecNode& node) {
  if (node.kind != SpecNode::Kind::kScalar) return std::string(DescribeKind(node));
  return Quoted(node.scalar);
}

// What to do about a value that is not of the `wanted` kind ("a number").
std::string HintForScalar(const SpecNode& node, absl::string_view wanted) {
  if (node.kind == SpecNode::Kind::kNull) return "give a value, or leave the key out";
  if (node.kind == SpecNode::Kind::kScalar && node.quoted) return absl::StrCat("without quotes it would be ", wanted);
  return "";
}

std::string Describe(const IntegerRange& range) {
  if (range.min == range.max) return absl::StrCat("must be ", range.min);
  return absl::StrCat("must be from ", range.min, " to ", range.max);
}

std::string Describe(const NumberRange& range) {
  return absl::StrCat("must be ", range.above_min ? "above " : "at least ", range.min, " and ",
                      range.below_max ? "below " : "at most ", range.max);
}

void AddNotANumber(const SpecNode& node, absl::string_view path, absl::string_view wanted, SpecProblems& problems) {
  std::string hint;
  const NumberForm form = node.kind == SpecNode::Kind::kScalar ? FormOf(node.scalar) : NumberForm::kNone;
  if (form == NumberForm::kNone && node.kind == SpecNode::Kind::kScalar) {
    const std::string bare = absl::StrReplaceAll(node.scalar, {{"_", ""}, {",", ""}});
    if (bare.size() < 40 && bare != node.scalar && FormOf(bare) != NumberForm::kNone)
      hint = absl::StrCat("write ", bare);
  } else {
    hint = HintForScalar(node, wanted);
  }
  problems.Add(node, path, absl::StrCat("expected ", wanted, ", got ", Describe(node)), hint);
}

// The hint for 1e3 where an integer is wanted: its digits, when it is one.
std::string HintForInteger(absl::string_view text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  if (value < 1 || value > 1e15 || value != std::floor(value)) return "";
  return absl::StrCat("write ", static_cast<uint64_t>(value));
}

absl::StatusOr<std::string> Invalid(absl::string_view message) { return absl::InvalidArgumentError(message); }

}  // namespace

bool IsWord(const SpecNode& node, absl::string_view word) {
  return node.kind == SpecNode::Kind::kScalar && !node.quoted && node.scalar == word;
}

std::optional<uint64_t> ReadInteger(const SpecNode& node, absl::string_view path, const IntegerRange& range,
                                    SpecProblems& problems) {
  const bool plain = node.kind == SpecNode::Kind::kScalar && !node.quoted;
  const NumberForm form = plain ? FormOf(node.scalar) : NumberForm::kNone;
  if (form == NumberForm::kNumber) {
    problems.Add(node, path, absl::StrCat("expected an integer, got ", Quoted(node.scalar)),
                 HintForInteger(node.scalar));
    return std::nullopt;
  }
  if (form == NumberForm::kNotFinite) {
    problems.Add(node, path, absl::StrCat("expected an integer, got ", node.scalar), "numbers must be finite");
    return std::nullopt;
  }
  if (form == NumberForm::kNone) {
    AddNotANumber(node, path, "an integer", problems);
    return std::nullopt;
  }
  const absl::string_view digits = absl::StripPrefix(node.scalar, "+");
  if (digits.size() > 1 && digits[0] == '0') {
    problems.Add(node, path, absl::StrCat("an integer has no leading zeros: ", Quoted(node.scalar)));
    return std::nullopt;
  }
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || value < range.min || value > range.max) {
    problems.Add(node, path, absl::StrCat(Quoted(node.scalar), " is out of range: ", Describe(range)));
    return std::nullopt;
  }
  return value;
}

std::optional<double> ReadNumber(const SpecNode& node, absl::string_view path, const NumberRange& range,
                                 SpecProblems& problems) {
  const bool plain = node.kind == SpecNode::Kind::kScalar && !node.quoted;
  const NumberForm form = plain ? FormOf(node.scalar) : NumberForm::kNone;
  if (form == NumberForm::kNone) {
    AddNotANumber(node, path, "a number", problems);
    return std::nullopt;
  }
  if (form == NumberForm::kNotFinite) {
    problems.Add(node, path, absl::StrCat("a number must be finite, got ", node.scalar));
    return std::nullopt;
  }
  const absl::string_view text = absl::StripPrefix(node.scalar, "+");
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool below = range.above_min ? value <= range.min : value < range.min;
  const bool above = range.below_max ? value >= range.max : value > range.max;
  if (error != std::errc() || below || above) {
    problems.Add(node, path, absl::StrCat(Quoted(node.scalar), " is out of range: ", Describe(range)));
    return std::nullopt;
  }
  return value == 0 ? 0.0 : value;  // no negative zero
}

std::optional<bool> ReadBoolean(const SpecNode& node, absl::string_view path, SpecProblems& problems) {
  if (IsWord(node, "true")) return true;
  if (IsWord(node, "false")) return false;
  std::string hint = HintForScalar(node, "true or false");
  if (node.kind == SpecNode::Kind::kScalar) {
    const bool yes = IsOneOf(node.scalar, {"yes", "on", "true", "y", "1"});
    const bool no = IsOneOf(node.scalar, {"no", "off", "false", "n", "0"});
    if (yes || no) hint = absl::StrCat("write ", yes ? "true" : "false", node.quoted ? ", without quotes" : "");
  }
  problems.Add(node, path, absl::StrCat("expected true or false, got ", Describe(node)), hint);
  return std::nullopt;
}

std::optional<std::string> ReadText(const SpecNode& node, absl::string_view path, SpecProblems& problems) {
  if (node.kind != SpecNode::Kind::kScalar) {
    problems.Add(node, path, absl::StrCat("expected text, got ", Describe(node)), HintForScalar(node, "text"));
    return std::nullopt;
  }
  if (!node.quoted) {
    const bool boolean = IsOneOf(node.scalar, {"true", "false", "yes", "no", "on", "off"});
    if (boolean || FormOf(node.scalar) != NumberForm::kNone) {
      problems.Add(
          node, path,
          absl::StrCat("expected text, got ", boolean ? "the truth value " : "the number ", Quoted(node.scalar)),
          "put it in quotes if it is meant as text");
      return std::nullopt;
    }
  }
  return node.scalar;
}

std::optional<std::string> ReadChoice(const SpecNode& node, absl::string_view path, absl::string_view choices,
                                      absl::string_view later, SpecProblems& problems) {
  if (node.kind != SpecNode::Kind::kScalar) {
    problems.Add(node, path, absl::StrCat("expected one of ", choices, ", got ", Describe(node)),
                 HintForScalar(node, "text"));
    return std::nullopt;
  }
  const std::vector<absl::string_view> known = absl::StrSplit(choices, '|');
  if (std::find(known.begin(), known.end(), node.scalar) != known.end()) return node.scalar;
  const std::vector<absl::string_view> planned = absl::StrSplit(later, '|', absl::SkipEmpty());
  const bool is_file = !planned.empty() && absl::StrContains(node.scalar, '/');
  if (is_file || later == "*" || std::find(planned.begin(), planned.end(), node.scalar) != planned.end()) {
    problems.Add(node, path, absl::StrCat(Quoted(node.scalar), " is not supported yet"),
                 absl::StrCat("use ", absl::StrJoin(known, " or ")));
    return std::nullopt;
  }
  std::string hint;
  for (const absl::string_view word : known) {
    const std::string lower = absl::AsciiStrToLower(node.scalar);
    if (lower.size() <= 64 && EditDistance(lower, word) <= 1 + word.size() / 4)
      hint = absl::StrCat("did you mean ", word, "?");
  }
  problems.Add(node, path, absl::StrCat("expected ", absl::StrJoin(known, " or "), ", got ", Quoted(node.scalar)),
               hint);
  return std::nullopt;
}

absl::StatusOr<std::string> CheckJobName(absl::string_view text) {
  const auto is_alnum = [](char c) {
    return absl::ascii_islower(static_cast<unsigned char>(c)) || absl::ascii_isdigit(static_cast<unsigned char>(c));
  };
  const bool shape = !text.empty() && is_alnum(text.front()) && is_alnum(text.back()) &&
                     std::all_of(text.begin(), text.end(), [&](char c) { return is_alnum(c) || c == '-' || c == '.'; });
  if (shape && text.size() <= kMaxNameBytes) return std::string(text);
  return Invalid(absl::StrCat(Quoted(text), " is not a name: at most ", kMaxNameBytes,
                              " lower-case letters, digits, '-' and '.', with a letter or digit first and last"));
}

absl::StatusOr<std::string> CheckPath(absl::string_view text) {
  absl::string_view path = text;
  if (absl::ConsumePrefix(&path, "file:") && absl::StartsWith(path, "//")) path.remove_prefix(2);
  if (absl::StrContains(path, "://")) {
    return Invalid(absl::StrCat(Quoted(text), ": object stores are not supported yet; give an absolute path"));
  }
  if (!absl::StartsWith(path, "/")) {
    return Invalid(absl::StrCat(Quoted(text), " is not an absolute path: it must start with '/'"));
  }
  if (path.size() > kMaxPathBytes) return Invalid(absl::StrCat("a path of more than ", kMaxPathBytes, " bytes"));
  if (path.find_first_of("\n\r\t") != absl::string_view::npos) {
    return Invalid(absl::StrCat(Quoted(text), ": a path has no tabs or line ends"));
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(path, '/');
  if (std::find(parts.begin(), parts.end(), "..") != parts.end()) {
    return Invalid(absl::StrCat(Quoted(text), ": '..' is not accepted in a path"));
  }
  return std::string(path);
}

absl::StatusOr<std::string> CheckResume(absl::string_view text) {
  const bool is_name =
      absl::StartsWith(text, "step-") && text.size() <= 64 && std::all_of(text.begin() + 5, text.end(), [](char c) {
        return absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '.';
      });
  if (text == "never" || text == "auto" || is_name) return std::string(text);
  return Invalid(
      absl::StrCat("expected never, auto or the name of a checkpoint in checkpoint.dir, like "
                   "step-0000000020; got ",
                   Quoted(text)));
}

}  // namespace stagecoach
