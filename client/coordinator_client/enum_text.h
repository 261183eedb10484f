#ifndef STAGECOACH_CLIENT_COORDINATOR_CLIENT_ENUM_TEXT_H_
#define STAGECOACH_CLIENT_COORDINATOR_CLIENT_ENUM_TEXT_H_

#include <string>

#include "google/protobuf/generated_enum_reflection.h"

namespace stagecoach {

// The name of an enum's value without what all of them begin with: "RUNNING". A value of a newer coordinator: its
// number.
template <typename Enum>
std::string EnumText(Enum value) {
  const google::protobuf::EnumDescriptor& type = *google::protobuf::GetEnumDescriptor<Enum>();
  const google::protobuf::EnumValueDescriptor* named = type.FindValueByNumber(value);
  if (named == nullptr) return std::to_string(static_cast<int>(value));
  constexpr size_t kSuffix = sizeof("UNSPECIFIED") - 1;
  return named->name().substr(type.FindValueByNumber(0)->name().size() - kSuffix);
}

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COORDINATOR_CLIENT_ENUM_TEXT_H_
