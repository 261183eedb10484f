#include "coordinator/program/arena_shares.h"

#include <algorithm>
#include <iterator>

namespace stagecoach {
namespace {

using SlotList = google::protobuf::RepeatedPtrField<v1::Slot>;

// Bytes of an arena, each of them taken once.
class TakenBytes {
 public:
  // How many of the slot's bytes nobody had taken yet.
  uint64_t Take(const v1::Slot& slot) {
    uint64_t begin = slot.offset();
    uint64_t end = slot.offset() + slot.bytes();
    uint64_t taken_before = 0;
    auto next = end_of_.lower_bound(begin);
    if (next != end_of_.begin() && std::prev(next)->second >= begin) --next;
    while (next != end_of_.end() && next->first <= end) {
      const uint64_t first = std::max(next->first, slot.offset());
      const uint64_t last = std::min(next->second, slot.offset() + slot.bytes());
      if (last > first) taken_before += last - first;
      begin = std::min(begin, next->first);
      end = std::max(end, next->second);
      next = end_of_.erase(next);
    }
    end_of_.emplace(begin, end);
    return slot.bytes() - taken_before;
  }
  uint64_t TakeAll(const SlotList& slots) {
    uint64_t bytes = 0;
    for (const v1::Slot& slot : slots) bytes += Take(slot);
    return bytes;
  }

 private:
  std::map<uint64_t, uint64_t> end_of_;  // of disjoint ranges, by start
};

}  // namespace

std::map<uint32_t, v1::StageMemory> ShareArena(const v1::StageProgram& program) {
  std::map<uint32_t, v1::StageMemory> shares;
  TakenBytes taken;
  uint64_t sum = 0;
  for (const v1::StageSlots& stage : program.stages()) {
    v1::StageMemory& memory = shares[stage.stage()];
    memory.set_activations(taken.TakeAll(stage.load()) + taken.TakeAll(stage.saved()) + taken.TakeAll(stage.shared()) +
                           taken.TakeAll(stage.recomputed()));
    sum += memory.activations();
  }
  for (const v1::StageSlots& stage : program.stages()) {
    v1::StageMemory& memory = shares[stage.stage()];
    memory.set_pending_weight(taken.TakeAll(stage.pending()));
    sum += memory.pending_weight();
  }
  for (int i = 0; i < program.channels_size(); ++i) {
    const v1::ChannelSpec& channel = program.channels(i);
    const bool receives = channel.to_worker_rank() == program.worker_rank();
    v1::StageMemory& memory = shares[receives ? channel.to_stage() : channel.from_stage()];
    const uint64_t bytes = taken.TakeAll(program.channel_slots(i).slots());
    memory.set_receive(memory.receive() + bytes);
    sum += bytes;
  }
  // The rest is scratch, and what lies between slots, if anything does.
  if (!shares.empty() && program.arena_bytes() > sum) shares.begin()->second.set_scratch(program.arena_bytes() - sum);
  return shares;
}

}  // namespace stagecoach
