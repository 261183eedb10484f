#include "coordinator/program/instruction_uses.h"

#include <cstdint>

namespace stagecoach {

InstructionUses UsesOf(const v1::Action& action, const PipelineShape& shape) {
  const uint32_t stage = action.stage();
  const bool first = stage == 0;
  const bool last = stage + 1 == shape.num_stages;
  const bool again = shape.recomputes[stage];
  const bool pending = shape.LeavesPending(stage);
  switch (action.kind()) {
    case v1::ACTION_KIND_LOAD:
      return {.load = true};
    case v1::ACTION_KIND_FORWARD:
      return {.load = first || last,
              .recv = !first,
              .send = !last,
              .saved = true,
              .shared = true,
              .pending = again && pending,
              .recomputed = again};
    case v1::ACTION_KIND_RECOMPUTE:
      return {.shared = true, .pending = pending, .recomputed = true};
    case v1::ACTION_KIND_BACKWARD_INPUT:
      return {.recv = !last,
              .send = shape.SendsGradient(stage),
              .saved = true,
              .shared = true,
              .pending = pending,
              .recomputed = again};
    case v1::ACTION_KIND_BACKWARD_WEIGHT:
      return {.load = last, .shared = true, .pending = true};
    case v1::ACTION_KIND_SEND_FORWARD:
    case v1::ACTION_KIND_SEND_BACKWARD:
    case v1::ACTION_KIND_SEND_TIE:
      return {.send = true, .post = true};
    case v1::ACTION_KIND_RECV_FORWARD:
    case v1::ACTION_KIND_RECV_BACKWARD:
    case v1::ACTION_KIND_RECV_TIE:
      return {.recv = true, .post = true};
    case v1::ACTION_KIND_TIE_REDUCE:
      return {.recv = shape.SendsTie(stage)};
    default:
      return {};
  }
}

}  // namespace stagecoach
