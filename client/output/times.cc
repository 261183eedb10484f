#include "client/output/times.h"

#include "absl/strings/str_cat.h"
#include "common/quoted.h"

namespace stagecoach {

absl::Time FromProto(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

std::string Rfc3339(absl::Time time) { return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone()); }

std::string LocalTime(absl::Time time) { return absl::FormatTime("%Y-%m-%d %H:%M:%S", time, absl::LocalTimeZone()); }

std::string ShortDuration(absl::Duration duration) {
  const int64_t seconds = absl::ToInt64Seconds(duration < absl::ZeroDuration() ? absl::ZeroDuration() : duration);
  if (seconds < 60) return absl::StrCat(seconds, "s");
  if (seconds < 600) return absl::StrCat(seconds / 60, "m", seconds % 60, "s");
  if (seconds < 3600) return absl::StrCat(seconds / 60, "m");
  if (seconds < 48 * 3600) return absl::StrCat(seconds / 3600, "h", seconds % 3600 / 60, "m");
  return absl::StrCat(seconds / (24 * 3600), "d");
}

absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration) || duration <= absl::ZeroDuration() ||
      duration == absl::InfiniteDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(Quoted(text), " is no duration; write 30s, 10m or 1h30m"));
  }
  return duration;
}

}  // namespace stagecoach
