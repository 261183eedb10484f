#include "client/output/json.h"

#include "absl/strings/str_cat.h"
#include "common/proto_json.h"
#include "yaml-cpp/yaml.h"

namespace stagecoach {
namespace {

void Emit(const Json& json, YAML::Emitter& out) {
  if (json.is_object()) {
    if (json.empty()) out << YAML::Flow;
    out << YAML::BeginMap;
    for (const auto& [key, value] : json.items()) {
      out << YAML::Key << key << YAML::Value;
      Emit(value, out);
    }
    out << YAML::EndMap;
  } else if (json.is_array()) {
    if (json.empty()) out << YAML::Flow;
    out << YAML::BeginSeq;
    for (const Json& value : json) Emit(value, out);
    out << YAML::EndSeq;
  } else if (json.is_string()) {
    // Quoted, or "on" and "1e3" would be read as something else.
    out << YAML::DoubleQuoted << json.get_ref<const std::string&>();
  } else if (json.is_null()) {
    out << YAML::Null;
  } else {
    out << PrintJsonText(json, JsonForm::kOneLine);  // JSON's numbers, true and false are YAML's
  }
}

}  // namespace

Json ToJson(const google::protobuf::Message& message) { return Json::parse(PrintJson(message)); }

std::string PrintJsonText(const Json& json, JsonForm form) {
  return json.dump(form == JsonForm::kIndented ? 2 : -1, ' ', false, Json::error_handler_t::replace);
}

std::string PrintYaml(const Json& json) {
  YAML::Emitter out;
  Emit(Json::parse(PrintJsonText(json, JsonForm::kOneLine)), out);
  return absl::StrCat(out.c_str(), "\n");
}

}  // namespace stagecoach
