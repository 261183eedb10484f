#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/check.h"
#include "coordinator/spec/job_spec_schema.h"
#include "coordinator/spec/spec_text.h"

namespace stagecoach {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The protobuf field that a schema path names. The table is constant, so a path that names none is a broken invariant.
struct FieldOf {
  const FieldDescriptor* field = nullptr;
  std::vector<const FieldDescriptor*> parents;
};

FieldOf Resolve(absl::string_view path) {
  const google::protobuf::Descriptor* type = v1::JobSpec::descriptor();
  FieldOf result;
  for (const absl::string_view name : absl::StrSplit(path, '.')) {
    STAGECOACH_CHECK(type != nullptr);
    if (result.field != nullptr) result.parents.push_back(result.field);
    result.field = type->FindFieldByName(std::string(name));
    STAGECOACH_CHECK(result.field != nullptr);
    type = result.field->message_type();
  }
  return result;
}

Message& MutableParent(v1::JobSpec& spec, const FieldOf& target) {
  Message* message = &spec;
  for (const FieldDescriptor* parent : target.parents) {
    message = message->GetReflection()->MutableMessage(message, parent);
  }
  return *message;
}

const Message& Parent(const v1::JobSpec& spec, const FieldOf& target) {
  const Message* message = &spec;
  for (const FieldDescriptor* parent : target.parents) {
    message = &message->GetReflection()->GetMessage(*message, parent);
  }
  return *message;
}

void SetInteger(const SchemaField& field, uint64_t value, v1::JobSpec& spec) {
  const FieldOf target = Resolve(field.path);
  Message& parent = MutableParent(spec, target);
  if (target.field->cpp_type() == FieldDescriptor::CPPTYPE_UINT32) {
    parent.GetReflection()->SetUInt32(&parent, target.field, static_cast<uint32_t>(value));
  } else {
    parent.GetReflection()->SetUInt64(&parent, target.field, value);
  }
}

uint64_t GetInteger(const SchemaField& field, const v1::JobSpec& spec) {
  const FieldOf target = Resolve(field.path);
  const Message& parent = Parent(spec, target);
  if (target.field->cpp_type() == FieldDescriptor::CPPTYPE_UINT32) {
    return parent.GetReflection()->GetUInt32(parent, target.field);
  }
  return parent.GetReflection()->GetUInt64(parent, target.field);
}

// An enum value PRECISION_F32 of field `precision` is the word f32.
std::string EnumPrefix(const FieldDescriptor& field) { return absl::StrCat(absl::AsciiStrToUpper(field.name()), "_"); }

void SetText(const SchemaField& field, const std::string& value, v1::JobSpec& spec) {
  const FieldOf target = Resolve(field.path);
  Message& parent = MutableParent(spec, target);
  if (target.field->enum_type() == nullptr) {
    parent.GetReflection()->SetString(&parent, target.field, value);
    return;
  }
  const auto* found =
      target.field->enum_type()->FindValueByName(EnumPrefix(*target.field) + absl::AsciiStrToUpper(value));
  STAGECOACH_CHECK(found != nullptr);
  parent.GetReflection()->SetEnum(&parent, target.field, found);
}

std::string GetText(const SchemaField& field, const v1::JobSpec& spec) {
  const FieldOf target = Resolve(field.path);
  const Message& parent = Parent(spec, target);
  if (target.field->enum_type() == nullptr) return parent.GetReflection()->GetString(parent, target.field);
  const std::string& name = parent.GetReflection()->GetEnum(parent, target.field)->name();
  return absl::AsciiStrToLower(absl::StripPrefix(name, EnumPrefix(*target.field)));
}

void ParseInteger(const SchemaField& field, const SpecNode& node, v1::JobSpec& spec, SpecProblems& problems) {
  if (field.kind == ValueKind::kIntegerOrAuto && IsWord(node, "auto")) {
    SetInteger(field, 0, spec);
    return;
  }
  IntegerRange range = field.integers;
  if (!field.later.empty()) range.max = IntegerRange().max;
  const std::optional<uint64_t> value = ReadInteger(node, field.path, range, problems);
  if (!value.has_value()) return;
  if (*value > field.integers.max) {
    problems.Add(node, field.path, absl::StrCat("a value of ", *value, " is not supported yet"),
                 absl::StrCat("use ", field.integers.max));
    return;
  }
  SetInteger(field, *value, spec);
}

void ParseText(const SchemaField& field, const SpecNode& node, v1::JobSpec& spec, SpecProblems& problems) {
  const std::optional<std::string> text = ReadText(node, field.path, problems);
  if (!text.has_value()) return;
  const absl::StatusOr<std::string> checked = field.check(*text);
  if (!checked.ok()) {
    problems.Add(node, field.path, checked.status().message());
    return;
  }
  SetText(field, *checked, spec);
}

bool IsPlainText(absl::string_view text) {
  constexpr absl::string_view kReserved[] = {"true", "false", "yes", "no",  "on",
                                             "off",  "null",  "nan", "inf", "infinity"};
  const std::string lower = absl::AsciiStrToLower(text);
  if (std::find(std::begin(kReserved), std::end(kReserved), lower) != std::end(kReserved)) return false;
  const auto is_letter = [](char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)); };
  return !text.empty() && (is_letter(text[0]) || text[0] == '/') && std::all_of(text.begin(), text.end(), [&](char c) {
    return is_letter(c) || absl::ascii_isdigit(static_cast<unsigned char>(c)) || absl::StrContains("_-./", c);
  });
}

// A word of the table needs no quotes, though it may begin with a digit.
std::string PrintChoice(const SchemaField& field, const std::string& word) {
  const std::vector<absl::string_view> words = absl::StrSplit(field.choices, '|');
  return std::find(words.begin(), words.end(), word) != words.end() ? word : PrintText(word);
}

}  // namespace

void ParseField(const SchemaField& field, const SpecNode& node, v1::JobSpec& spec, SpecProblems& problems) {
  switch (field.kind) {
    case ValueKind::kInteger:
    case ValueKind::kIntegerOrAuto:
      return ParseInteger(field, node, spec, problems);
    case ValueKind::kNumber:
      if (const auto value = ReadNumber(node, field.path, field.numbers, problems)) {
        const FieldOf target = Resolve(field.path);
        Message& parent = MutableParent(spec, target);
        parent.GetReflection()->SetDouble(&parent, target.field, *value);
      }
      return;
    case ValueKind::kBoolean:
      if (const auto value = ReadBoolean(node, field.path, problems)) {
        const FieldOf target = Resolve(field.path);
        Message& parent = MutableParent(spec, target);
        parent.GetReflection()->SetBool(&parent, target.field, *value);
      }
      return;
    case ValueKind::kText:
      return ParseText(field, node, spec, problems);
    case ValueKind::kChoice:
      if (const auto word = ReadChoice(node, field.path, field.choices, field.later, problems)) {
        SetText(field, *word, spec);
      }
      return;
    case ValueKind::kCustom:
      return field.parse(node, field.path, spec, problems);
  }
}

std::string PrintField(const SchemaField& field, const v1::JobSpec& spec) {
  switch (field.kind) {
    case ValueKind::kInteger:
      return absl::StrCat(GetInteger(field, spec));
    case ValueKind::kIntegerOrAuto:
      return GetInteger(field, spec) == 0 ? "auto" : absl::StrCat(GetInteger(field, spec));
    case ValueKind::kNumber: {
      const FieldOf target = Resolve(field.path);
      const Message& parent = Parent(spec, target);
      return PrintNumber(parent.GetReflection()->GetDouble(parent, target.field));
    }
    case ValueKind::kBoolean: {
      const FieldOf target = Resolve(field.path);
      const Message& parent = Parent(spec, target);
      return parent.GetReflection()->GetBool(parent, target.field) ? "true" : "false";
    }
    case ValueKind::kText:
      return PrintText(GetText(field, spec));
    case ValueKind::kChoice:
      return PrintChoice(field, GetText(field, spec));
    case ValueKind::kCustom:
      return field.print(spec);
  }
  return "";
}

std::string PrintText(absl::string_view text) {
  if (IsPlainText(text)) return std::string(text);
  return absl::StrCat(
      "\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}, {"\r", "\\r"}, {"\t", "\\t"}}),
      "\"");
}

std::string PrintNumber(double value) {
  char buffer[40];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  STAGECOACH_CHECK(error == std::errc());
  std::string text(buffer, end);
  // Other YAML readers take 1e-05 for text, but not 1.0e-05.
  const size_t exponent = text.find('e');
  if (exponent != std::string::npos && !absl::StrContains(text, '.')) text.insert(exponent, ".0");
  return text;
}

}  // namespace stagecoach
