#ifndef STAGECOACH_COORDINATOR_PROGRAM_SLOT_TABLE_H_
#define STAGECOACH_COORDINATOR_PROGRAM_SLOT_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <vector>

#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// Ranges of the arena that hold something. Slots may share bytes, but not at a time.
class LiveRanges {
 public:
  // False: some of it is live.
  bool Add(const v1::Slot& slot) {
    if (slot.bytes() == 0) return true;
    const auto next = end_of_.lower_bound(slot.offset());
    if (next != end_of_.end() && next->first < slot.offset() + slot.bytes()) return false;
    if (next != end_of_.begin() && std::prev(next)->second > slot.offset()) return false;
    end_of_.emplace(slot.offset(), slot.offset() + slot.bytes());
    return true;
  }
  void Remove(const v1::Slot& slot) {
    if (slot.bytes() > 0) end_of_.erase(slot.offset());
  }

 private:
  std::map<uint64_t, uint64_t> end_of_;  // by start
};

enum class Content { kNothing, kWritten, kInFlight };

// What a slot holds, of which micro-batch. A send slot stays in flight until an F or I waits for it. A slot of a
// channel within the worker is written by one stage and read by the other, and nothing is ever in flight.
struct SlotState {
  Content content = Content::kNothing;
  uint32_t micro_batch = 0;
};
using SlotList = google::protobuf::RepeatedPtrField<v1::Slot>;
struct SlotTable {
  const SlotList* slots = nullptr;
  std::vector<SlotState> states;

  explicit SlotTable(const SlotList& list) : slots(&list), states(static_cast<size_t>(list.size())) {}
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_SLOT_TABLE_H_
