#ifndef STAGECOACH_TESTS_TESTING_WORKER_PIPELINE_PROGRAM_H_
#define STAGECOACH_TESTS_TESTING_WORKER_PIPELINE_PROGRAM_H_

#include <cstdint>

#include "stagecoach/v1/plan.pb.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// Programs for the fakes, one layer a stage and one stage a worker: all forwards, then all backwards. Every region of
// the fake stages has 64 bytes, activations have kColumns columns.
struct PipelineShape {
  uint32_t num_stages = 2;
  uint32_t num_micro_batches = 3;
  uint32_t micro_batch_size = 2;
  uint32_t seq_len = 4;
  bool forward_only = false;
  bool tied = false;        // between the first and the last stage
  bool recomputes = false;  // every stage its layer
  uint32_t num_skips = 0;   // skip connections from the first stage to the last, on one edge

  static constexpr uint32_t kColumns = 2;
};

v1::StageProgram PipelineProgram(const PipelineShape& shape, uint32_t stage);
v1::ModelGraph PipelineGraph(const PipelineShape& shape);

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_TESTING_WORKER_PIPELINE_PROGRAM_H_
