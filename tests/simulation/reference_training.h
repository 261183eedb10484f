#ifndef STAGECOACH_TESTS_SIMULATION_REFERENCE_TRAINING_H_
#define STAGECOACH_TESTS_SIMULATION_REFERENCE_TRAINING_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "coordinator/jobs/job_record.h"
#include "coordinator/jobs/micro_batches.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach::simulation {

// What a job must come to: its steps, one after another, in one place, without messages or faults.
class ReferenceTraining {
 public:
  struct State {
    v1::CommitRecord record;       // of the step that led here
    std::vector<uint64_t> values;  // of each layer, after it
  };

  ReferenceTraining(const v1::JobSpec& spec, std::shared_ptr<const JobPlan> plan);

  // After so many steps; 0: the initial one.
  const State& After(uint64_t step);
  double ValidationLossAfter(uint64_t step);

 private:
  void RunNextStep();
  // One micro-batch forward; the activations that each layer got, then the output.
  std::vector<uint64_t> Forward(const State& state, uint64_t input) const;
  double LossOfRun(const State& state, uint64_t first_sample, const MicroBatches& batches) const;

  const v1::JobSpec spec_;
  const std::shared_ptr<const JobPlan> plan_;
  std::deque<State> states_;  // by step; references stay
};

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_REFERENCE_TRAINING_H_
