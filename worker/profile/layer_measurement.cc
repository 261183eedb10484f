#include "worker/profile/layer_measurement.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace stagecoach {

absl::StatusOr<v1::LayersMeasured> MeasureAll(const v1::MeasureLayers& order, LayerProfiler& profiler,
                                              const Clock& clock, const MayGoOn& may_go_on) {
  const absl::Duration end = clock.Now() + kMeasurementTime;
  const auto has_time = [&]() -> absl::Status {
    STAGECOACH_RETURN_IF_ERROR(may_go_on());
    if (clock.Now() < end) return absl::OkStatus();
    return absl::DeadlineExceededError(absl::StrCat("the ", absl::FormatDuration(kMeasurementTime), " are over"));
  };
  v1::LayersMeasured answer;
  answer.set_attempt(order.attempt());
  for (const v1::LayerCall& call : order.layers()) {
    const absl::StatusOr<v1::LayerSeconds> seconds = profiler.Measure(call, has_time);
    STAGECOACH_RETURN_IF_ERROR(may_go_on());
    v1::LayerSeconds& added = *answer.add_layers();
    if (seconds.ok()) {
      added = *seconds;
    } else {
      absl::StrAppend(answer.mutable_message(), answer.message().empty() ? "" : "; ", call.layer().name(), " with ",
                      call.micro_batch_size(), " samples: ", std::string(seconds.status().message()));
    }
  }
  return answer;
}

v1::LayersMeasured NothingMeasured(const v1::MeasureLayers& order, absl::string_view why) {
  v1::LayersMeasured answer;
  answer.set_attempt(order.attempt());
  for (int i = 0; i < order.layers_size(); ++i) answer.add_layers();
  answer.set_message(std::string(why));
  return answer;
}

}  // namespace stagecoach
