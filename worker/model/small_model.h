#ifndef STAGECOACH_WORKER_MODEL_SMALL_MODEL_H_
#define STAGECOACH_WORKER_MODEL_SMALL_MODEL_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/plan.pb.h"

namespace stagecoach {

// A GPT-2 that tests can afford, with sizes that are not multiples of anything.
struct SmallModel {
  uint64_t blocks = 2;
  uint64_t hidden = 6;
  uint64_t heads = 2;
  uint64_t vocab = 7;
  uint64_t seq = 5;
  uint64_t positions = 9;
  uint64_t micro_batch_size = 2;
  bool tied = true;
  double dropout = 0;
  double std = 0.3;                                       // large, so that no gradient is negligible
  std::vector<uint32_t> frozen = {};                      // layers
  std::vector<std::pair<uint32_t, uint32_t>> skips = {};  // from and to which layer, in order

  v1::JobSpec Spec() const;      // what worker/model reads of it; adamw
  v1::ModelGraph Graph() const;  // embedding, blocks, norm, head
  uint32_t num_layers() const { return static_cast<uint32_t>(blocks) + 3; }
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_MODEL_SMALL_MODEL_H_
