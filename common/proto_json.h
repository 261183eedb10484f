#ifndef STAGECOACH_COMMON_PROTO_JSON_H_
#define STAGECOACH_COMMON_PROTO_JSON_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace stagecoach {

// The one JSON form of our messages, printed and read through protobuf's reflection. Field names as in the .proto
// (snake_case); 64-bit integers as numbers; enum values without the prefix that they share with their _UNSPECIFIED
// value ("F32", "SUCCEEDED"), unknown ones as numbers; doubles with the fewest digits that read back to the same bits;
// bytes as lower-case hexadecimal; numbers that are not finite as null. Unset messages, optional fields and oneofs are
// absent; everything else is printed, default values too. Maps are printed in key order, so equal messages print equal
// text.
enum class JsonLayout { kOneLine, kIndented };
std::string PrintJson(const google::protobuf::Message& message, JsonLayout layout = JsonLayout::kOneLine);

struct JsonLimits {
  uint64_t max_bytes = uint64_t{64} << 20;
  int max_depth = 32;  // of objects and arrays
};
// Reads what PrintJson prints into `message`, which is cleared first. Strict: unknown fields, duplicate keys, wrong
// types, numbers out of range, null, a byte order mark and anything after the value are INVALID_ARGUMENT with the path
// of the field; a text over the limits is RESOURCE_EXHAUSTED. Missing fields keep their defaults. Never throws; takes
// memory in proportion to the text.
absl::Status ParseJson(absl::string_view text, google::protobuf::Message& message, const JsonLimits& limits = {});

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_PROTO_JSON_H_
