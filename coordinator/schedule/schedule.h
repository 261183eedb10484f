#ifndef STAGECOACH_COORDINATOR_SCHEDULE_SCHEDULE_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_SCHEDULE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// Seconds of one micro-batch on one *global* stage, in any unit.
struct StageCost {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
};

struct ScheduleProblem {
  uint32_t num_workers = 0;
  uint32_t num_chunks = 1;  // stages per worker
  uint32_t num_micro_batches = 0;
  std::vector<StageCost> cost_of_stage = {};  // [num_workers * num_chunks]; empty: all equal
  double communication_seconds = 0;           // latency of a hop between workers
};

// Which worker holds a global stage.
enum class StagePlacement { kLoop };  // stage s on worker s mod num_workers

// Emits compute actions only, F and B (or I and W) of every stage and micro-batch. Pure; thread-safe. Every problem
// with at least one worker and one micro-batch has a table; INVALID_ARGUMENT otherwise, naming the condition.
class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual absl::string_view name() const = 0;         // "1f1b"
  virtual absl::string_view description() const = 0;  // one line: conditions of its formulas, bubble, memory
  virtual StagePlacement placement() const = 0;
  virtual bool forward_only() const = 0;
  virtual absl::StatusOr<v1::ComputeTable> Build(const ScheduleProblem& problem) const = 0;
};

std::span<const Schedule* const> AllSchedules();
// `auto` is 1f1b for now. NOT_FOUND with the nearest name.
absl::StatusOr<const Schedule*> FindSchedule(absl::string_view name);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_SCHEDULE_H_
