#ifndef STAGECOACH_CLIENT_OUTPUT_TIMES_H_
#define STAGECOACH_CLIENT_OUTPUT_TIMES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/timestamp.pb.h"

namespace stagecoach {

absl::Time FromProto(const google::protobuf::Timestamp& time);
// "2026-11-30T01:43:47.123Z": for programs.
std::string Rfc3339(absl::Time time);
// "2026-11-30 02:43:47", where the user is: for people.
std::string LocalTime(absl::Time time);
// "4s", "12m", "3h12m", "5d": two units at most.
std::string ShortDuration(absl::Duration duration);

// "30s", "1h30m", "500ms": positive, with a unit. INVALID_ARGUMENT.
absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_OUTPUT_TIMES_H_
