#ifndef STAGECOACH_COORDINATOR_PROGRAM_SLOT_SIZES_H_
#define STAGECOACH_COORDINATOR_PROGRAM_SLOT_SIZES_H_

#include <cstdint>

#include "stagecoach/v1/plan.pb.h"

namespace stagecoach {

// Bytes of one slot of each lifetime of a stage, and of its scratch: the layout that worker/model/stage.h carves. A
// worker computes the same numbers and refuses a program that differs.
struct SlotSizes {
  uint64_t load = 0;     // tokens, then labels; both have room on either stage that loads
  uint64_t saved = 0;    // saved region of every layer
  uint64_t shared = 0;   // input and shared region of every layer
  uint64_t pending = 0;  // output gradient and pending region of every layer; 0 in a forward-only program
  uint64_t scratch = 0;  // of the layer that needs most
};

SlotSizes SlotSizesOf(const v1::ModelGraph& graph, uint32_t first_layer, uint32_t last_layer, bool forward_only);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_SLOT_SIZES_H_
