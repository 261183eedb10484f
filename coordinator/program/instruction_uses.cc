#include "coordinator/program/instruction_uses.h"

#include <cstddef>
#include <cstdint>

namespace stagecoach {
namespace {

struct InstructionUses {
  bool load = false, recv = false, send = false, saved = false, shared = false, pending = false;
  bool recomputed = false, post = false;
};

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

const SkipsOfAction& SkipsOf(const v1::Action& action, const PipelineShape& shape) {
  static const auto& kNone = *new SkipsOfAction();
  if (action.kind() == v1::ACTION_KIND_FORWARD) return shape.forward_skips[action.stage()];
  return action.kind() == v1::ACTION_KIND_BACKWARD_INPUT ? shape.backward_skips[action.stage()] : kNone;
}

using SkipSlots = google::protobuf::RepeatedPtrField<v1::SkipSlot>;
std::string WrongSkips(const SkipSlots& named, const std::vector<ChannelKey>& needed, const v1::StageProgram& program,
                       absl::string_view reads) {
  for (int i = 0; i < named.size(); ++i) {
    const v1::SkipSlot& skip = named[i];
    const auto index = static_cast<int>(skip.channel());
    if (index < 0 || index >= program.channels_size()) return absl::StrCat("there is no channel ", skip.channel());
    const ChannelKey key = KeyOf(program.channels(index));
    if (static_cast<size_t>(i) >= needed.size()) {
      return absl::StrCat("names a slot of the ", ChannelName(key), ", which it never ", reads);
    }
    if (key != needed[static_cast<size_t>(i)] || skip.slot() < 0) {
      return absl::StrCat("names slot ", skip.slot(), " of the ", ChannelName(key), " where it ", reads, " the ",
                          ChannelName(needed[static_cast<size_t>(i)]));
    }
  }
  const auto num_named = static_cast<size_t>(named.size());
  if (num_named == needed.size()) return "";
  return absl::StrCat("names no slot of the ", ChannelName(needed[num_named]), ", which it ", reads);
}

}  // namespace

std::string WrongUses(const v1::Instruction& instruction, const v1::StageProgram& program, const PipelineShape& shape) {
  const InstructionUses uses = UsesOf(instruction.action(), shape);
  const auto names = [](int32_t slot, bool used) { return used ? slot >= 0 : slot == -1; };
  const bool waits_for_recv = uses.recv && !uses.post;
  const bool writes_send = uses.send && !uses.post;
  if (!names(instruction.load_slot(), uses.load) || !names(instruction.recv_slot(), uses.recv) ||
      !names(instruction.send_slot(), uses.send) || !names(instruction.saved_slot(), uses.saved) ||
      !names(instruction.shared_slot(), uses.shared) || !names(instruction.pending_slot(), uses.pending) ||
      !names(instruction.recomputed_slot(), uses.recomputed) ||
      (!uses.post && (instruction.channel() != 0 || instruction.sequence() != 0)) ||
      (!waits_for_recv && instruction.recv_channel() != 0) || (!writes_send && instruction.send_channel() != 0)) {
    return absl::StrCat("names a slot or channel that it does not use, or lacks one that it uses: ",
                        instruction.ShortDebugString());
  }
  const SkipsOfAction& skips = SkipsOf(instruction.action(), shape);
  std::string wrong = WrongSkips(instruction.skip_recv(), skips.recv, program, "reads");
  return wrong.empty() ? WrongSkips(instruction.skip_send(), skips.send, program, "writes") : wrong;
}

}  // namespace stagecoach
