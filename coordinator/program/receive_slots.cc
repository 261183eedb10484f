// NumReceiveSlots of lowering.h.

#include <algorithm>

#include "coordinator/program/lowering.h"

namespace stagecoach {

namespace {

// That the instruction reads and frees.
uint32_t NumRead(const v1::StageProgram& program, const v1::Instruction& instruction) {
  uint32_t num_read = 0;
  const auto count = [&](uint32_t index) {
    const v1::ChannelSpec& channel = program.channels(static_cast<int>(index));
    if (channel.from_worker_rank() != channel.to_worker_rank()) ++num_read;
  };
  if (instruction.recv_slot() >= 0) count(instruction.recv_channel());
  for (const v1::SkipSlot& skip : instruction.skip_recv()) count(skip.channel());
  return num_read;
}

}  // namespace

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
      case v1::ACTION_KIND_BACKWARD_INPUT:
        posted -= NumRead(program, instruction);
        break;
      default:
        break;
    }
  }
  return most;
}

}  // namespace stagecoach
