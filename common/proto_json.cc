#include "common/proto_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/quoted.h"

namespace stagecoach {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// What the values of an enum have in common: JOB_STATE_ of JOB_STATE_UNSPECIFIED. Empty when there is no such value.
absl::string_view PrefixOf(const EnumDescriptor& type) {
  const EnumValueDescriptor* zero = type.FindValueByNumber(0);
  constexpr absl::string_view kSuffix = "UNSPECIFIED";
  if (zero == nullptr || !absl::EndsWith(absl::string_view(zero->name()), kSuffix)) return "";
  return absl::string_view(zero->name()).substr(0, zero->name().size() - kSuffix.size());
}

// ---- printing

std::string JsonString(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

template <typename T>
std::string JsonFloat(T value) {
  if (!std::isfinite(value)) return "null";
  char digits[64];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  std::string text(digits, end);
  if (text == "-0") text = "-0.0";  // a reader that takes -0 for an integer would lose the sign
  return text;
}

class Printer {
 public:
  explicit Printer(JsonLayout layout) : indented_(layout == JsonLayout::kIndented) {}

  void Print(const Message& message) {
    const Reflection& reflection = *message.GetReflection();
    Open('{');
    for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
      const FieldDescriptor& field = *message.GetDescriptor()->field(i);
      if (field.has_presence() && !reflection.HasField(message, &field)) continue;
      Key(JsonString(field.name()));
      if (field.is_map()) {
        PrintMap(message, field);
      } else if (field.is_repeated()) {
        PrintArray(message, field);
      } else {
        PrintValue(message, field, -1);
      }
    }
    Close('}');
  }

  std::string Take() { return std::move(out_); }

 private:
  void PrintArray(const Message& message, const FieldDescriptor& field) {
    Open('[');
    for (int i = 0; i < message.GetReflection()->FieldSize(message, &field); ++i) {
      Element();
      PrintValue(message, field, i);
    }
    Close(']');
  }

  void PrintMap(const Message& message, const FieldDescriptor& field) {
    const Reflection& reflection = *message.GetReflection();
    const FieldDescriptor& key_field = *field.message_type()->map_key();
    std::vector<std::pair<std::string, const Message*>> entries;
    for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
      const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
      std::string key = key_field.cpp_type() == FieldDescriptor::CPPTYPE_STRING
                            ? JsonString(entry.GetReflection()->GetString(entry, &key_field))
                            : absl::StrCat("\"", Scalar(entry, key_field, -1), "\"");
      entries.emplace_back(std::move(key), &entry);
    }
    std::sort(entries.begin(), entries.end());
    Open('{');
    for (const auto& [key, entry] : entries) {
      Key(key);
      PrintValue(*entry, *field.message_type()->map_value(), -1);
    }
    Close('}');
  }

  // Element `index` of a repeated field; -1: the value of a singular one.
  void PrintValue(const Message& message, const FieldDescriptor& field, int index) {
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      out_ += Scalar(message, field, index);
      return;
    }
    const Reflection& reflection = *message.GetReflection();
    Print(index < 0 ? reflection.GetMessage(message, &field) : reflection.GetRepeatedMessage(message, &field, index));
  }

  static std::string Scalar(const Message& m, const FieldDescriptor& field, int index) {
    const Reflection& r = *m.GetReflection();
    const FieldDescriptor* f = &field;
    const bool single = index < 0;
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return absl::StrCat(single ? r.GetInt32(m, f) : r.GetRepeatedInt32(m, f, index));
      case FieldDescriptor::CPPTYPE_INT64:
        return absl::StrCat(single ? r.GetInt64(m, f) : r.GetRepeatedInt64(m, f, index));
      case FieldDescriptor::CPPTYPE_UINT32:
        return absl::StrCat(single ? r.GetUInt32(m, f) : r.GetRepeatedUInt32(m, f, index));
      case FieldDescriptor::CPPTYPE_UINT64:
        return absl::StrCat(single ? r.GetUInt64(m, f) : r.GetRepeatedUInt64(m, f, index));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return JsonFloat(single ? r.GetDouble(m, f) : r.GetRepeatedDouble(m, f, index));
      case FieldDescriptor::CPPTYPE_FLOAT:
        return JsonFloat(single ? r.GetFloat(m, f) : r.GetRepeatedFloat(m, f, index));
      case FieldDescriptor::CPPTYPE_BOOL:
        return (single ? r.GetBool(m, f) : r.GetRepeatedBool(m, f, index)) ? "true" : "false";
      case FieldDescriptor::CPPTYPE_ENUM:
        return EnumName(*field.enum_type(), single ? r.GetEnumValue(m, f) : r.GetRepeatedEnumValue(m, f, index));
      default: {
        const std::string text = single ? r.GetString(m, f) : r.GetRepeatedString(m, f, index);
        return JsonString(field.type() == FieldDescriptor::TYPE_BYTES ? absl::BytesToHexString(text) : text);
      }
    }
  }

  static std::string EnumName(const EnumDescriptor& type, int number) {
    const EnumValueDescriptor* value = type.FindValueByNumber(number);
    if (value == nullptr) return absl::StrCat(number);
    return absl::StrCat("\"", absl::string_view(value->name()).substr(PrefixOf(type).size()), "\"");
  }

  void Open(char bracket) {
    out_ += bracket;
    first_.push_back(true);
  }
  void Close(char bracket) {
    const bool was_empty = first_.back();
    first_.pop_back();
    if (indented_ && !was_empty) NewLine();
    out_ += bracket;
  }
  void Element() {
    if (!first_.back()) out_ += indented_ ? "," : ", ";
    first_.back() = false;
    if (indented_) NewLine();
  }
  void Key(const std::string& quoted) {
    Element();
    absl::StrAppend(&out_, quoted, ": ");
  }
  void NewLine() {
    out_ += '\n';
    out_.append(2 * first_.size(), ' ');
  }

  const bool indented_;
  std::string out_;
  std::vector<bool> first_;  // of each open bracket: nothing printed yet
};

// ---- reading

// Where the next value goes: field `field` of `message`, a new element of it when repeated.
struct Target {
  Message* message;
  const FieldDescriptor* field;
  bool element;
};

// Takes the events of the JSON parser and builds the message, one frame for each open bracket.
class MessageBuilder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  MessageBuilder(Message& root, int max_depth) : root_(root), max_depth_(max_depth) {}
  const absl::Status& status() const { return status_; }

  bool null() override { return Fail("null where a value is needed"); }
  bool boolean(bool value) override {
    const auto target = Next();
    if (target.field == nullptr) return false;
    if (target.field->cpp_type() != FieldDescriptor::CPPTYPE_BOOL) return WrongType(target, "true or false");
    const Reflection& r = *target.message->GetReflection();
    target.element ? r.AddBool(target.message, target.field, value) : r.SetBool(target.message, target.field, value);
    return true;
  }
  bool number_integer(number_integer_t value) override { return Number(value); }
  bool number_unsigned(number_unsigned_t value) override { return Number(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override {
    const auto target = Next();
    if (target.field == nullptr) return false;
    const auto type = target.field->cpp_type();
    if (type != FieldDescriptor::CPPTYPE_DOUBLE && type != FieldDescriptor::CPPTYPE_FLOAT) {
      return WrongType(target, "a number with a fraction, an exponent or too many digits");
    }
    return StoreReal(target, value);
  }
  bool string(string_t& value) override;
  bool binary(binary_t& /*value*/) override { return Fail("binary value"); }
  bool start_object(std::size_t /*elements*/) override;
  bool key(string_t& name) override;
  bool end_object() override {
    frames_.pop_back();
    return true;
  }
  bool start_array(std::size_t /*elements*/) override;
  bool end_array() override {
    frames_.pop_back();
    return true;
  }
  bool parse_error(std::size_t position, const std::string& /*last_token*/,
                   const nlohmann::json::exception& error) override {
    std::string what = error.what();
    if (const size_t end = what.find("] "); end != std::string::npos) what.erase(0, end + 2);
    what.resize(std::min<size_t>(what.size(), 300));
    std::replace_if(
        what.begin(), what.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    status_ = absl::InvalidArgumentError(absl::StrCat("not JSON at byte ", position, ": ", what));
    return false;
  }

 private:
  struct Frame {
    enum class Kind { kObject, kArray, kMap } kind;
    Message* message;              // kObject: the message; otherwise the one that has `field`
    const FieldDescriptor* field;  // kObject: of the key just read
    Message* entry = nullptr;      // kMap: of the key just read
    std::set<std::string> keys = {};
  };

  // The place of a scalar or an object that is not a map; a null field means failure.
  Target Next() {
    if (frames_.empty()) return Refuse("the text must be one object");
    const Frame& frame = frames_.back();
    switch (frame.kind) {
      case Frame::Kind::kArray:
        return {frame.message, frame.field, true};
      case Frame::Kind::kMap:
        return {frame.entry, frame.field->message_type()->map_value(), false};
      case Frame::Kind::kObject:
        break;
    }
    if (frame.field->is_repeated()) return Refuse(frame.field->is_map() ? "needs an object" : "needs an array");
    return {frame.message, frame.field, false};
  }
  Target Refuse(absl::string_view message) {
    Fail(message);
    return {nullptr, nullptr, false};
  }

  template <typename T>
  bool Number(T value);
  template <typename Field, typename T>
  static bool Fits(T value) {
    return std::in_range<Field>(value);
  }
  bool StoreReal(const Target& target, double value);
  bool Enter(Frame frame) {
    if (static_cast<int>(frames_.size()) >= max_depth_) {
      Fail("");
      status_ = absl::ResourceExhaustedError(absl::StrCat("nested more than ", max_depth_, " deep"));
      return false;
    }
    frames_.push_back(std::move(frame));
    return true;
  }

  bool WrongType(const Target& target, absl::string_view got) {
    return Fail(absl::StrCat("needs ",
                             target.field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE
                                 ? "an object"
                                 : absl::string_view(target.field->cpp_type_name()),
                             ", has ", got));
  }
  bool Fail(absl::string_view message) {
    const std::string path = Path();
    status_ = absl::InvalidArgumentError(path.empty() ? std::string(message) : absl::StrCat(path, ": ", message));
    return false;
  }
  std::string Path() const {
    std::string path;
    for (const Frame& frame : frames_) {
      if (frame.kind == Frame::Kind::kObject && frame.field != nullptr) {
        absl::StrAppend(&path, path.empty() ? "" : ".", frame.field->name());
      } else if (frame.kind == Frame::Kind::kArray) {
        absl::StrAppend(&path, "[", frame.message->GetReflection()->FieldSize(*frame.message, frame.field), "]");
      }
    }
    return path;
  }

  Message& root_;
  const int max_depth_;
  std::vector<Frame> frames_;
  absl::Status status_;
};

template <typename T>
bool MessageBuilder::Number(T value) {
  const Target t = Next();
  if (t.field == nullptr) return false;
  const Reflection& r = *t.message->GetReflection();
  const auto store = [&]<typename Field>(void (Reflection::*set)(Message*, const FieldDescriptor*, Field) const,
                                         void (Reflection::*add)(Message*, const FieldDescriptor*, Field) const) {
    if (!Fits<Field>(value)) return Fail(absl::StrCat(value, " is out of range"));
    (r.*(t.element ? add : set))(t.message, t.field, static_cast<Field>(value));
    return true;
  };
  switch (t.field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return store(&Reflection::SetInt32, &Reflection::AddInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return store(&Reflection::SetInt64, &Reflection::AddInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return store(&Reflection::SetUInt32, &Reflection::AddUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return store(&Reflection::SetUInt64, &Reflection::AddUInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT:
      return StoreReal(t, static_cast<double>(value));
    default:
      return WrongType(t, "a number");
  }
}

bool MessageBuilder::StoreReal(const Target& t, double value) {
  const Reflection& r = *t.message->GetReflection();
  if (t.field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
    t.element ? r.AddDouble(t.message, t.field, value) : r.SetDouble(t.message, t.field, value);
    return true;
  }
  if (std::abs(value) > std::numeric_limits<float>::max()) return Fail("is out of range");
  const auto narrow = static_cast<float>(value);
  t.element ? r.AddFloat(t.message, t.field, narrow) : r.SetFloat(t.message, t.field, narrow);
  return true;
}

bool MessageBuilder::string(string_t& value) {
  const Target t = Next();
  if (t.field == nullptr) return false;
  const Reflection& r = *t.message->GetReflection();
  if (t.field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    const EnumDescriptor& type = *t.field->enum_type();
    const EnumValueDescriptor* found = type.FindValueByName(absl::StrCat(PrefixOf(type), value));
    if (found == nullptr) return Fail(absl::StrCat("unknown value ", Quoted(value)));
    t.element ? r.AddEnum(t.message, t.field, found) : r.SetEnum(t.message, t.field, found);
    return true;
  }
  if (t.field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) return WrongType(t, "a string");
  if (t.field->type() == FieldDescriptor::TYPE_BYTES) {
    const std::string bytes = absl::HexStringToBytes(value.size() % 2 == 0 ? value : "");
    if (absl::BytesToHexString(bytes) != value) return Fail("needs lower-case hexadecimal digits");
    value = bytes;
  }
  t.element ? r.AddString(t.message, t.field, value) : r.SetString(t.message, t.field, value);
  return true;
}

bool MessageBuilder::start_object(std::size_t /*elements*/) {
  if (frames_.empty()) return Enter({Frame::Kind::kObject, &root_, nullptr});
  const Frame& frame = frames_.back();
  if (frame.kind == Frame::Kind::kObject && frame.field->is_map()) {
    return Enter({Frame::Kind::kMap, frame.message, frame.field});
  }
  const Target t = Next();
  if (t.field == nullptr) return false;
  if (t.field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return WrongType(t, "an object");
  const Reflection& r = *t.message->GetReflection();
  Message* message = t.element ? r.AddMessage(t.message, t.field) : r.MutableMessage(t.message, t.field);
  return Enter({Frame::Kind::kObject, message, nullptr});
}

bool MessageBuilder::start_array(std::size_t /*elements*/) {
  if (frames_.empty()) return Fail("the text must be one object");
  const Frame& frame = frames_.back();
  if (frame.kind != Frame::Kind::kObject || !frame.field->is_repeated() || frame.field->is_map()) {
    return Fail("an array where none is allowed");
  }
  return Enter({Frame::Kind::kArray, frame.message, frame.field});
}

bool MessageBuilder::key(string_t& name) {
  Frame& frame = frames_.back();
  if (!frame.keys.insert(name).second) return Fail(absl::StrCat("key ", Quoted(name), " twice"));
  if (frame.kind == Frame::Kind::kObject) {
    frame.field = frame.message->GetDescriptor()->FindFieldByName(name);
    if (frame.field == nullptr) return Fail(absl::StrCat("unknown key ", Quoted(name)));
    return true;
  }
  const FieldDescriptor* key_field = frame.field->message_type()->map_key();
  if (key_field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) return Fail("maps need string keys");
  frame.entry = frame.message->GetReflection()->AddMessage(frame.message, frame.field);
  frame.entry->GetReflection()->SetString(frame.entry, key_field, name);
  return true;
}

}  // namespace

std::string PrintJson(const Message& message, JsonLayout layout) {
  Printer printer(layout);
  printer.Print(message);
  return printer.Take();
}

absl::Status ParseJson(absl::string_view text, Message& message, const JsonLimits& limits) {
  message.Clear();
  if (text.size() > limits.max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the text has ", text.size(), " bytes; at most ", limits.max_bytes, " are accepted"));
  }
  if (absl::StartsWith(text, "\xEF\xBB\xBF"))
    return absl::InvalidArgumentError("the text begins with a byte order mark");
  // To the parser a NUL is the end of the text, whatever follows.
  if (absl::StrContains(text, '\0')) return absl::InvalidArgumentError("not JSON: the text has a NUL byte");
  MessageBuilder builder(message, limits.max_depth);
  const bool parsed = nlohmann::json::sax_parse(text.data(), text.data() + text.size(), &builder);
  STAGECOACH_CHECK(parsed == builder.status().ok());
  return builder.status();
}

}  // namespace stagecoach
