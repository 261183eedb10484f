#ifndef STAGECOACH_WORKER_EXECUTOR_PREPARED_PROGRAM_H_
#define STAGECOACH_WORKER_EXECUTOR_PREPARED_PROGRAM_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stagecoach/v1/program.pb.h"
#include "worker/executor/executor.h"
#include "worker/executor/transfer_slots.h"

namespace stagecoach {

// Where LOAD puts tokens and labels of a micro-batch; a part that the stage does not need is empty.
struct LoadSlot {
  std::span<std::byte> tokens, labels;
  // Devices that the host cannot write to at any moment are filled by a copy from here.
  std::unique_ptr<Memory> staging;
  EventRef staging_ready;
};

// One end of a skip edge, in F or in I.
struct SkipEnd {
  TransferSlots* slots = nullptr;
  size_t slot = 0;
};

// One instruction with all that it names looked up and checked, so that the interpreter looks up nothing.
struct PreparedInstruction {
  v1::Action action;
  uint32_t micro_batch = 0;
  Stage* stage = nullptr;
  StageState* state = nullptr;
  TransferSlots* recv = nullptr;
  size_t recv_slot = 0;
  TransferSlots* send = nullptr;
  size_t send_slot = 0;
  LoadSlot* load = nullptr;
  StageMemoryView memory;
  std::vector<SkipEnd> skip_recv, skip_send;
  std::vector<SkipTensors> skips_read, skips_written;  // of those, as `memory` shows them in a run
  // On devices whose work completes later; null elsewhere. What a post waits for, and where an instruction leaves the
  // event that some post waits for.
  const EventRef* ready = nullptr;
  EventRef* used = nullptr;
};

// A program made ready for one worker's memory, stages and channels.
struct PreparedProgram {
  std::vector<PreparedInstruction> instructions;
  // By channel; null where that end is not here.
  std::vector<std::unique_ptr<TransferSlots>> senders, receivers;
  std::vector<std::deque<LoadSlot>> load_slots;  // by stage; a deque, so that pointers stay good
  std::deque<EventRef> events;                   // likewise
};

// INVALID_ARGUMENT as Executor::Create. RESOURCE_EXHAUSTED: no memory to stage loads.
absl::StatusOr<PreparedProgram> PrepareProgram(const v1::StageProgram& program,
                                               const Executor::Collaborators& collaborators);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_EXECUTOR_PREPARED_PROGRAM_H_
