#include "formats/safetensors_header.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/quoted.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

constexpr char kMetadataKey[] = "__metadata__";

struct TypeInfo {
  const char* name;
  unsigned bits;
};
constexpr std::array<TypeInfo, 22> kTypes = {{
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
    {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
}};
static_assert(static_cast<size_t>(SafetensorsType::kU64) + 1 == kTypes.size());

const TypeInfo& InfoOf(SafetensorsType type) { return kTypes[static_cast<size_t>(type)]; }

// What is wrong with the bytes of a shape; empty: `bytes` is set.
std::string BytesOfShape(SafetensorsType type, const std::vector<uint64_t>& shape, uint64_t& bytes) {
  uint64_t bits = BitsOf(type), elements = 1;
  for (const uint64_t dim : shape) {
    if (__builtin_mul_overflow(elements, dim, &elements)) return "its shape has more than 2^64 elements";
  }
  if (__builtin_mul_overflow(elements, bits, &bits)) return "its shape has more than 2^64 bits";
  if (bits % 8 != 0) return absl::StrCat("its ", bits, " bits are not whole bytes");
  bytes = bits / 8;
  return "";
}

// Takes the events of the JSON parser. The form that it accepts is at most three deep, so nothing else can nest deeper.
class HeaderBuilder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  // Offsets are still relative to the data.
  SafetensorsHeader Take() { return std::move(header_); }
  const std::string& error() const { return error_; }

  bool null() override { return Unexpected("null"); }
  bool boolean(bool /*value*/) override { return Unexpected("true or false"); }
  bool number_integer(number_integer_t /*value*/) override { return Unexpected("a negative number"); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override {
    return Unexpected("a number that is not a plain integer below 2^64");
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::kShape) {
      header_.tensors.back().shape.push_back(value);
      return true;
    }
    if (place_ != Place::kOffsets) return Unexpected("a number");
    if (num_offsets_ == 2) return Fail("data_offsets needs two numbers, has more");
    (num_offsets_++ == 0 ? header_.tensors.back().begin : header_.tensors.back().end) = value;
    return true;
  }
  bool string(string_t& value) override;
  bool binary(binary_t& /*value*/) override { return Unexpected("binary data"); }
  bool start_object(std::size_t /*elements*/) override;
  bool key(string_t& name) override;
  bool end_object() override;
  bool start_array(std::size_t /*elements*/) override;
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string& /*last_token*/,
                   const nlohmann::json::exception& /*error*/) override {
    error_ = absl::StrCat("the header is not JSON (byte ", position, " of it)");
    return false;
  }

 private:
  enum class Place { kStart, kTop, kMetadata, kTensor, kShape, kOffsets };

  bool Unexpected(absl::string_view what) {
    if (place_ == Place::kStart) return Fail("the header is not a JSON object");
    if (place_ == Place::kMetadata) {
      return Fail(absl::StrCat(kMetadataKey, " needs strings; ", Quoted(key_), " is ", what));
    }
    if (place_ == Place::kTop) return Fail(absl::StrCat(Quoted(key_), " needs an object, has ", what));
    return Fail(absl::StrCat(Quoted(key_), " has ", what));
  }
  bool Fail(absl::string_view message) {
    const bool in_tensor = place_ == Place::kTensor || place_ == Place::kShape || place_ == Place::kOffsets;
    error_ =
        in_tensor ? absl::StrCat("tensor ", Quoted(header_.tensors.back().name), ": ", message) : std::string(message);
    return false;
  }

  SafetensorsHeader header_;
  std::string error_;
  Place place_ = Place::kStart;
  std::string key_;               // read last, at any level
  std::set<std::string> names_;   // keys of the top object
  std::set<std::string> fields_;  // of the tensor being read
  int num_offsets_ = 0;
};

bool HeaderBuilder::string(string_t& value) {
  if (place_ == Place::kMetadata) {
    header_.metadata[key_] = value;
    return true;
  }
  if (place_ != Place::kTensor || key_ != "dtype") return Unexpected("a string");
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (value != kTypes[i].name) continue;
    header_.tensors.back().type = static_cast<SafetensorsType>(i);
    return true;
  }
  return Fail(absl::StrCat("unknown dtype ", Quoted(value)));
}

bool HeaderBuilder::start_object(std::size_t /*elements*/) {
  if (place_ == Place::kStart) {
    place_ = Place::kTop;
    return true;
  }
  if (place_ != Place::kTop) return Unexpected("an object");
  if (key_ == kMetadataKey) {
    place_ = Place::kMetadata;
    return true;
  }
  place_ = Place::kTensor;
  header_.tensors.emplace_back().name = key_;
  fields_.clear();
  return true;
}

bool HeaderBuilder::key(string_t& name) {
  key_ = name;
  if (place_ == Place::kTop) return names_.insert(name).second || Fail(absl::StrCat(Quoted(name), " is there twice"));
  if (place_ == Place::kMetadata) {
    return header_.metadata.count(name) == 0 || Fail(absl::StrCat(kMetadataKey, " has ", Quoted(name), " twice"));
  }
  if (name != "dtype" && name != "shape" && name != "data_offsets") {
    return Fail(absl::StrCat("unknown key ", Quoted(name)));
  }
  return fields_.insert(name).second || Fail(absl::StrCat(name, " is there twice"));
}

bool HeaderBuilder::end_object() {
  if (place_ == Place::kTensor) {
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (fields_.count(field) == 0) return Fail(absl::StrCat(field, " is missing"));
    }
  }
  place_ = Place::kTop;
  return true;
}

bool HeaderBuilder::start_array(std::size_t /*elements*/) {
  if (place_ != Place::kTensor || key_ == "dtype") return Unexpected("an array");
  place_ = key_ == "shape" ? Place::kShape : Place::kOffsets;
  num_offsets_ = 0;
  return true;
}

bool HeaderBuilder::end_array() {
  if (place_ == Place::kOffsets && num_offsets_ != 2) {
    return Fail(absl::StrCat("data_offsets needs two numbers, has ", num_offsets_));
  }
  place_ = Place::kTensor;
  return true;
}

// That the tensors, in the order of their bytes, cover `data_bytes` bytes without holes. Returns what is wrong.
std::string CheckTiling(const std::vector<SafetensorsTensor>& tensors, uint64_t data_bytes) {
  uint64_t covered = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    const std::string range = absl::StrCat("tensor ", Quoted(tensor.name), ": [", tensor.begin, ", ", tensor.end, ")");
    if (tensor.end < tensor.begin) return absl::StrCat(range, " ends before it begins");
    uint64_t bytes = 0;
    if (const std::string error = BytesOfShape(tensor.type, tensor.shape, bytes); !error.empty()) {
      return absl::StrCat("tensor ", Quoted(tensor.name), ": ", error);
    }
    if (tensor.bytes() != bytes) {
      return absl::StrCat(range, " has ", tensor.bytes(), " bytes; its dtype and shape need ", bytes);
    }
    if (tensor.begin < covered) return absl::StrCat(range, " overlaps the tensor before it");
    if (tensor.begin > covered) return absl::StrCat(range, " leaves a hole before it, from ", covered);
    if (tensor.end > data_bytes) {
      return absl::StrCat(range, " lies past the end: the file has ", data_bytes, " bytes of tensors and is truncated");
    }
    covered = tensor.end;
  }
  if (covered == data_bytes) return "";
  return absl::StrCat(data_bytes - covered, " bytes after the last tensor belong to none");
}

}  // namespace

const char* NameOf(SafetensorsType type) { return InfoOf(type).name; }
unsigned BitsOf(SafetensorsType type) { return InfoOf(type).bits; }

v1::DType DTypeOf(SafetensorsType type) {
  v1::DType dtype;
  return v1::DType_Parse(absl::StrCat("DTYPE_", NameOf(type)), &dtype) ? dtype : v1::DTYPE_UNSPECIFIED;
}

std::optional<SafetensorsType> SafetensorsTypeOf(v1::DType dtype) {
  for (size_t i = 0; i < kTypes.size() && dtype != v1::DTYPE_UNSPECIFIED; ++i) {
    if (const auto type = static_cast<SafetensorsType>(i); DTypeOf(type) == dtype) return type;
  }
  return std::nullopt;
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text, uint64_t file_bytes) {
  const uint64_t data_begin = kSafetensorsLengthBytes + text.size();
  STAGECOACH_CHECK(data_begin <= file_bytes);
  if (absl::StartsWith(text, "\xEF\xBB\xBF")) return absl::DataLossError("the header begins with a byte order mark");
  // To the parser a NUL is the end of the text, whatever follows.
  if (absl::StrContains(text, '\0')) return absl::DataLossError("the header is not JSON (it has a NUL byte)");
  HeaderBuilder builder;
  if (!nlohmann::json::sax_parse(text.data(), text.data() + text.size(), &builder)) {
    return absl::DataLossError(builder.error());
  }
  SafetensorsHeader header = builder.Take();
  std::sort(header.tensors.begin(), header.tensors.end(), [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  if (const std::string error = CheckTiling(header.tensors, file_bytes - data_begin); !error.empty()) {
    return absl::DataLossError(error);
  }
  for (SafetensorsTensor& tensor : header.tensors) {
    tensor.begin += data_begin;
    tensor.end += data_begin;
  }
  return header;
}

namespace {

absl::StatusOr<std::string> JsonString(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    return absl::InvalidArgumentError(absl::StrCat(Quoted(text), " is not UTF-8"));
  }
}

absl::StatusOr<std::string> MetadataJson(const SafetensorsMetadata& metadata) {
  std::string json = absl::StrCat("\"", kMetadataKey, "\":{");
  const char* separator = "";
  for (const auto& [key, value] : metadata) {
    STAGECOACH_ASSIGN_OR_RETURN(const std::string key_json, JsonString(key));
    STAGECOACH_ASSIGN_OR_RETURN(const std::string value_json, JsonString(value));
    absl::StrAppend(&json, separator, key_json, ":", value_json);
    separator = ",";
  }
  return absl::StrCat(json, "}");
}

absl::StatusOr<std::string> TensorJson(const SafetensorsTensor& tensor) {
  STAGECOACH_ASSIGN_OR_RETURN(const std::string name, JsonString(tensor.name));
  std::string json = absl::StrCat(name, ":{\"dtype\":\"", NameOf(tensor.type), "\",\"shape\":[");
  for (size_t i = 0; i < tensor.shape.size(); ++i) absl::StrAppend(&json, i == 0 ? "" : ",", tensor.shape[i]);
  return absl::StrCat(json, "],\"data_offsets\":[", tensor.begin, ",", tensor.end, "]}");
}

// Canonical order and offsets relative to the data.
absl::Status PlaceTensors(std::vector<SafetensorsTensor>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
    return BitsOf(a.type) != BitsOf(b.type) ? BitsOf(a.type) > BitsOf(b.type) : a.name < b.name;
  });
  std::set<absl::string_view> names = {kMetadataKey};
  uint64_t offset = 0;
  for (SafetensorsTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(tensor.name), ": this name is taken"));
    }
    uint64_t bytes = 0;
    std::string error = BytesOfShape(tensor.type, tensor.shape, bytes);
    tensor.begin = offset;
    if (error.empty() && __builtin_add_overflow(offset, bytes, &offset)) error = "the file has more than 2^64 bytes";
    if (!error.empty()) return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(tensor.name), ": ", error));
    tensor.end = offset;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> LayOutSafetensors(const SafetensorsMetadata& metadata,
                                              std::vector<SafetensorsTensor>& tensors) {
  STAGECOACH_RETURN_IF_ERROR(PlaceTensors(tensors));
  std::string json = "{";
  if (!metadata.empty()) {
    STAGECOACH_ASSIGN_OR_RETURN(const std::string part, MetadataJson(metadata));
    json += part;
  }
  for (const SafetensorsTensor& tensor : tensors) {
    STAGECOACH_ASSIGN_OR_RETURN(const std::string part, TensorJson(tensor));
    absl::StrAppend(&json, json.size() == 1 ? "" : ",", part);
  }
  json += '}';
  json.resize((json.size() + 7) / 8 * 8, ' ');
  if (json.size() > kMaxSafetensorsHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the header would have ", json.size(), " bytes; the format allows ", kMaxSafetensorsHeaderBytes));
  }
  const uint64_t data_begin = kSafetensorsLengthBytes + json.size();
  for (SafetensorsTensor& tensor : tensors) {
    tensor.begin += data_begin;
    tensor.end += data_begin;
  }
  std::string bytes;
  for (unsigned shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(json.size() >> shift & 0xff);
  return bytes + json;
}

}  // namespace stagecoach
