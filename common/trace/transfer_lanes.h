#ifndef STAGECOACH_COMMON_TRACE_TRANSFER_LANES_H_
#define STAGECOACH_COMMON_TRACE_TRANSFER_LANES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/trace/pipeline_trace.h"

namespace stagecoach {

// Puts the transfers of each stage into lanes of which each has one transfer at a time: what overlaps on one track is
// legal in no viewer unless it nests. The ends of a channel have lanes of their own, as few as do.
class TransferLanes {
 public:
  explicit TransferLanes(const PipelineTrace& trace);

  // Of trace.transfers[transfer], among those of its stage: 0, 1, ...
  uint32_t lane(size_t transfer) const { return lanes_[transfer]; }
  // "receive activations of stage 0", "send gradients to stage 0 (2)".
  const std::vector<std::string>& names(uint32_t stage) const { return names_[stage]; }

 private:
  std::vector<uint32_t> lanes_;                  // by transfer
  std::vector<std::vector<std::string>> names_;  // by stage and lane
};

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_TRACE_TRANSFER_LANES_H_
