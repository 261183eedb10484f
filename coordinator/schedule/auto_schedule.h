#ifndef STAGECOACH_COORDINATOR_SCHEDULE_AUTO_SCHEDULE_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_AUTO_SCHEDULE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "coordinator/schedule/schedule.h"
#include "coordinator/schedule/stage_placement.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

struct AutoOptions {
  // Share of the usual work, which is some thousand schedules tried of a small problem and fewer of a large one; from
  // 0, which is a handful, to 1000. The result depends on nothing but the problem and these.
  double effort = 1;
  uint64_t seed = 1;
  std::optional<StagePlacement> placement = std::nullopt;  // nothing: both, where there are two chunks
};

struct AutoResult {
  v1::ComputeTable table;  // of I and W, never B
  StagePlacement placement = StagePlacement::kLoop;
  // What the problem's objective measures: the makespan, or the longest interval of a worker.
  double seconds = 0;
  // No table of this problem, of either placement, does better within the memory limits.
  double lower_bound_seconds = 0;
  // The best hand-made schedule within the memory limits, each B taken as an I and its W; empty: none is.
  std::string best_hand_made;
  double best_hand_made_seconds = 0;

  double gap_ratio() const { return lower_bound_seconds > 0 ? seconds / lower_bound_seconds - 1 : 0; }
};

// Minimises problem.objective within problem.memory_limit. Starts from every hand-made schedule with as many chunks,
// then searches keys of a list scheduler (AutoKeySearch) and the rows (AutoRowSearch); with two chunks in both
// placements, or in that of the options. Never worse than the best hand-made schedule that respects the limits and is
// placed so, by times that leave skip edges out: who has some compares what Simulate says. Deterministic.
// INVALID_ARGUMENT: as CheckProblem; a worker that may not hold one micro-batch; or a V of another number of chunks
// than two.
absl::StatusOr<AutoResult> SearchSchedule(const ScheduleProblem& problem, const AutoOptions& options = {});

// The table of SearchSchedule.
class AutoSchedule final : public Schedule {
 public:
  explicit AutoSchedule(AutoOptions options = {}) : options_(std::move(options)) {}

  absl::string_view name() const override { return "auto"; }
  absl::string_view description() const override {
    return "searched for the costs, latency and memory given; any P, M and V; never worse than the others";
  }
  // Of one chunk; with two the rows of the table tell.
  StagePlacement placement() const override { return StagePlacement::kLoop; }
  bool forward_only() const override { return false; }
  bool AcceptsChunks(uint32_t num_chunks) const override { return num_chunks >= 1; }
  absl::StatusOr<v1::ComputeTable> Build(const ScheduleProblem& problem) const override;

 private:
  const AutoOptions options_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_AUTO_SCHEDULE_H_
