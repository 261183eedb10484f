// NumReceiveSlots of lowering.h.

#include <algorithm>

#include "coordinator/program/lowering.h"

namespace stagecoach {

uint32_t NumReceiveSlots(const v1::StageProgram& program) {
  uint32_t posted = 0;
  uint32_t most = 0;
  for (const v1::Instruction& instruction : program.instructions()) {
    switch (instruction.action().kind()) {
      case v1::ACTION_KIND_RECV_FORWARD:
      case v1::ACTION_KIND_RECV_BACKWARD:
        most = std::max(most, ++posted);
        break;
      case v1::ACTION_KIND_FORWARD:
      case v1::ACTION_KIND_BACKWARD_INPUT: {
        if (instruction.recv_slot() < 0) break;
        const v1::ChannelSpec& channel = program.channels(static_cast<int>(instruction.recv_channel()));
        if (channel.from_worker_rank() != channel.to_worker_rank()) --posted;
        break;
      }
      default:
        break;
    }
  }
  return most;
}

}  // namespace stagecoach
