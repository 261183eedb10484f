#ifndef STAGECOACH_CLIENT_OUTPUT_JSON_H_
#define STAGECOACH_CLIENT_OUTPUT_JSON_H_

#include <string>

#include "google/protobuf/message.h"
#include "nlohmann/json.hpp"

namespace stagecoach {

// Keys stay in the order in which they are added.
using Json = nlohmann::ordered_json;

// Raised when a field changes its meaning or goes; new ones are added without.
inline constexpr int kSchemaVersion = 1;

// As common/proto_json prints it.
Json ToJson(const google::protobuf::Message& message);
// Bytes that are not UTF-8 are replaced: names of files may be any bytes.
enum class JsonForm { kOneLine, kIndented };
std::string PrintJsonText(const Json& json, JsonForm form);
// The same as YAML, in block style.
std::string PrintYaml(const Json& json);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_OUTPUT_JSON_H_
