#ifndef STAGECOACH_WORKER_PROFILE_LAYER_MEASUREMENT_H_
#define STAGECOACH_WORKER_PROFILE_LAYER_MEASUREMENT_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "stagecoach/v1/worker.pb.h"
#include "worker/profile/layer_profiler.h"

namespace stagecoach {

// Layers that are not done by then are not measured: whoever asked plans without them, and with the others.
inline constexpr absl::Duration kMeasurementTime = absl::Seconds(20);

// The answer to an order. A layer that cannot be measured has zeros, and the message says why. Errors of `may_go_on`
// alone: nobody waits for the answer any more.
absl::StatusOr<v1::LayersMeasured> MeasureAll(const v1::MeasureLayers& order, LayerProfiler& profiler,
                                              const Clock& clock, const MayGoOn& may_go_on);

// The answer that nothing was measured.
v1::LayersMeasured NothingMeasured(const v1::MeasureLayers& order, absl::string_view why);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_PROFILE_LAYER_MEASUREMENT_H_
