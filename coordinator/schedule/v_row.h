#ifndef STAGECOACH_COORDINATOR_SCHEDULE_V_ROW_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_V_ROW_H_

#include <array>
#include <cstdint>

#include "coordinator/schedule/schedule.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// A worker's row of a V-shaped schedule, written as phases of actions whose micro-batches count up by themselves. A
// schedule that is defined for many micro-batches is written for that many; the actions of those that do not exist are
// left out, which delays nothing else.
class VRow {
 public:
  VRow(const ScheduleProblem& problem, uint32_t worker, v1::WorkerActions& row);

  // The kind's next micro-batch on chunk 0, on the way down the workers, or 1, on the way up.
  void Forward(uint32_t chunk) { AppendNext(v1::ACTION_KIND_FORWARD, chunk, next_forward_); }
  void BackwardInput(uint32_t chunk) { AppendNext(v1::ACTION_KIND_BACKWARD_INPUT, chunk, next_input_); }
  void BackwardWeight(uint32_t chunk) { AppendNext(v1::ACTION_KIND_BACKWARD_WEIGHT, chunk, next_weight_); }
  // I, then its W at once. Not B, whose gradient would leave only after the W.
  void Backward(uint32_t chunk) {
    BackwardInput(chunk);
    BackwardWeight(chunk);
  }

 private:
  using NextMicroBatch = std::array<uint32_t, 2>;  // [chunk]

  void AppendNext(v1::ActionKind kind, uint32_t chunk, NextMicroBatch& next);

  const uint32_t num_micro_batches_;
  const std::array<uint32_t, 2> stage_of_chunk_;
  v1::WorkerActions& row_;
  NextMicroBatch next_forward_ = {};
  NextMicroBatch next_input_ = {};
  NextMicroBatch next_weight_ = {};
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_V_ROW_H_
