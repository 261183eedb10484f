#ifndef STAGECOACH_COORDINATOR_SCHEDULE_SCHEDULE_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_SCHEDULE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/schedule/stage_placement.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// Seconds of one micro-batch on one *global* stage, in any unit.
struct StageCost {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
  double recompute = 1;  // of R, in tables that have one
};

// The skip edge between two stages (common/skip_connections.h): F of the upper one waits for F of the lower one, and I
// or B of the lower one for that of the upper one where a gradient goes back. The chain of stages between demands that
// too, only without this transfer's time: an order in which all stages take micro-batches in one order, as schedules
// and searches make them, runs with skip edges if it does without, so that these need not know of any.
struct SkipCost {
  uint32_t from_stage = 0;
  uint32_t to_stage = 0;  // above it
  double seconds = 0;     // as ScheduleProblem::edge_seconds, of either direction
  bool has_gradient = false;
};

// What a schedule is to be good at; hand-made schedules have one table for both.
enum class Objective {
  kSpan,    // the step: first start to last end over all workers
  kDevice,  // the longest interval of one worker, the cost in the Zero Bubble paper
};

// Times are in any one unit, from 0 to kMaxSeconds (compute_table.h).
struct ScheduleProblem {
  uint32_t num_workers = 0;
  uint32_t num_chunks = 1;  // stages per worker
  uint32_t num_micro_batches = 0;
  std::vector<StageCost> cost_of_stage = {};  // [num_workers * num_chunks]; empty: all equal
  double communication_seconds = 0;           // latency of a hop between workers
  // For how long one transfer between stages s and s + 1, of either direction, occupies that direction of the edge
  // (bytes / bandwidth); the transfers of a direction go one after another. Not used between stages of one worker.
  std::vector<double> edge_seconds = {};  // [num_workers * num_chunks - 1]; empty: 0
  // Each has directions of its own, beside the edges of the chain. Only Simulate looks at them.
  std::vector<SkipCost> skip_edges = {};
  // Micro-batches on one full stage (1 / num_workers of the model), each held in full until its W. Hand-made schedules
  // do not read it: compare with Timeline::peak_activations.
  std::vector<double> memory_limit = {};  // [num_workers]; empty: none
  Objective objective = Objective::kSpan;
};

// Emits compute actions only, F and B (or I and W) of every stage and micro-batch; I and W, or B, of a stage are in
// micro-batch order. Where a stage recomputes, R is put in afterwards (recomputing_table.h). Pure; thread-safe. Every
// problem with at least one worker and one micro-batch, and a number of chunks that the schedule accepts, has a table;
// INVALID_ARGUMENT otherwise, naming the condition.
class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual absl::string_view name() const = 0;         // "1f1b"
  virtual absl::string_view description() const = 0;  // one line: conditions of its formulas, bubble, memory
  virtual StagePlacement placement() const = 0;
  virtual bool forward_only() const = 0;
  uint32_t default_chunks() const;  // that it is made for: DefaultVirtualStages of its name
  virtual bool AcceptsChunks(uint32_t num_chunks) const { return num_chunks == default_chunks(); }
  virtual absl::StatusOr<v1::ComputeTable> Build(const ScheduleProblem& problem) const = 0;
};

std::span<const Schedule* const> AllSchedules();
// All but `auto`, which starts from these and takes longer.
std::span<const Schedule* const> HandMadeSchedules();
// NOT_FOUND with the nearest name.
absl::StatusOr<const Schedule*> FindSchedule(absl::string_view name);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_SCHEDULE_H_
