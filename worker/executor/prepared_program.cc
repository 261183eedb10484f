#include "worker/executor/prepared_program.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/action_text.h"
#include "common/memory_layout.h"
#include "common/skip_connections.h"
#include "common/status_macros.h"
#include "worker/executor/buffer_uses.h"
#include "worker/transport/transfer_tag.h"

namespace stagecoach {
namespace {

constexpr uint64_t kTokenBytes = 4;

bool IsRecv(v1::ActionKind kind) {
  return kind == v1::ACTION_KIND_RECV_FORWARD || kind == v1::ACTION_KIND_RECV_BACKWARD ||
         kind == v1::ACTION_KIND_RECV_TIE;
}
bool IsSend(v1::ActionKind kind) {
  return kind == v1::ACTION_KIND_SEND_FORWARD || kind == v1::ACTION_KIND_SEND_BACKWARD ||
         kind == v1::ACTION_KIND_SEND_TIE;
}

// What a stage reads or writes of a skip edge is whole tensors.
absl::Status CheckSkipChannel(const v1::ChannelSpec& spec, uint32_t channel, uint64_t row_bytes) {
  const auto num_tensors = static_cast<uint64_t>(spec.skip_connections_size());
  if (num_tensors == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("channel ", channel, " is of a skip edge and carries no connection"));
  }
  if (spec.bytes_per_sample() != 0 && spec.bytes_per_sample() % (num_tensors * row_bytes) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("channel ", channel, ": ", spec.bytes_per_sample(),
                                                 " bytes per sample are not ", num_tensors,
                                                 " tensors of whole columns of ", row_bytes, " bytes"));
}

class ProgramPreparer {
 public:
  ProgramPreparer(const v1::StageProgram& program, const Executor::Collaborators& collaborators)
      : program_(program), collaborators_(collaborators) {}

  absl::StatusOr<PreparedProgram> Prepare() {
    STAGECOACH_RETURN_IF_ERROR(CheckSizes());
    STAGECOACH_RETURN_IF_ERROR(PrepareChannels());
    for (int i = 0; i < program_.stages_size(); ++i) STAGECOACH_RETURN_IF_ERROR(PrepareLoads(i));
    prepared_.instructions.reserve(static_cast<size_t>(program_.instructions_size()));
    for (const v1::Instruction& instruction : program_.instructions()) {
      auto prepared = PrepareInstruction(instruction);
      if (!prepared.ok()) return WithContext(prepared.status(), ActionText(instruction.action()));
      prepared_.instructions.push_back(*std::move(prepared));
    }
    if (!collaborators_.device.capabilities().completes_at_enqueue) LinkEvents();
    return std::move(prepared_);
  }

 private:
  absl::Status CheckSizes() const;
  absl::Status PrepareChannels();
  absl::StatusOr<std::unique_ptr<TransferSlots>> SlotsOf(int channel) const;
  absl::Status PrepareLoads(int stage);
  absl::StatusOr<PreparedInstruction> PrepareInstruction(const v1::Instruction& instruction);
  absl::Status PrepareLoadSlot(const v1::Instruction& instruction, size_t stage, PreparedInstruction& prepared);
  absl::Status PrepareTransfers(const v1::Instruction& instruction, PreparedInstruction& prepared) const;
  absl::Status PrepareSkips(const v1::Instruction& instruction, PreparedInstruction& prepared) const;
  absl::StatusOr<SkipEnd> PrepareSkip(const v1::Action& action, const v1::SkipSlot& skip, bool is_read) const;
  absl::Status PrepareMemory(const v1::Instruction& instruction, int stage, PreparedInstruction& prepared) const;
  absl::Status CheckTie(const PreparedInstruction& prepared) const;
  void LinkEvents();
  template <typename Visit>
  void ForEachBuffer(const PreparedInstruction& prepared, Visit visit) const;

  absl::StatusOr<std::span<std::byte>> Region(const v1::Slot& slot, const char* what) const;
  absl::StatusOr<std::span<std::byte>> StageSlot(const google::protobuf::RepeatedPtrField<v1::Slot>& slots, int index,
                                                 uint64_t needed, bool is_used, const char* what) const;
  absl::StatusOr<TransferSlots*> End(const std::vector<std::unique_ptr<TransferSlots>>& ends, uint32_t channel,
                                     int32_t slot, const char* what) const;
  int IndexOfStage(uint32_t stage) const;  // -1: not here

  // What LOAD gives to a stage.
  struct Needs {
    bool tokens = false;
    bool labels = false;
  };

  const v1::StageProgram& program_;
  const Executor::Collaborators& collaborators_;
  std::vector<Needs> needs_;  // by stage
  PreparedProgram prepared_;
};

absl::Status ProgramPreparer::CheckSizes() const {
  const auto stages = static_cast<size_t>(program_.stages_size());
  const auto channels = static_cast<size_t>(program_.channels_size());
  if (stages != collaborators_.stages.size() || stages != collaborators_.states.size() ||
      channels != collaborators_.channels.size() || program_.channel_slots_size() != program_.channels_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the program has ", stages, " stages and ", channels, " channels (slots of ",
                     program_.channel_slots_size(), "), but was given ", collaborators_.stages.size(), " stages, ",
                     collaborators_.states.size(), " states and ", collaborators_.channels.size(), " channels"));
  }
  if (program_.arena_bytes() > collaborators_.arena.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the program needs an arena of ", program_.arena_bytes(),
                                                   " bytes, but was given ", collaborators_.arena.size()));
  }
  if (collaborators_.micro_batch_size == 0 || collaborators_.seq_len == 0) {
    return absl::InvalidArgumentError("micro_batch_size and seq_len must not be 0");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::span<std::byte>> ProgramPreparer::Region(const v1::Slot& slot, const char* what) const {
  const uint64_t end = program_.arena_bytes();
  if (slot.offset() > end || slot.bytes() > end - slot.offset() || slot.offset() % kTensorAlignment != 0) {
    return absl::InvalidArgumentError(absl::StrCat(what, " at offset ", slot.offset(), " with ", slot.bytes(),
                                                   " bytes is not an aligned part of the arena of ", end, " bytes"));
  }
  return collaborators_.arena.subspan(slot.offset(), slot.bytes());
}

absl::Status ProgramPreparer::PrepareChannels() {
  for (int i = 0; i < program_.channels_size(); ++i) {
    const v1::ChannelSpec& spec = program_.channels(i);
    prepared_.senders.emplace_back();
    prepared_.receivers.emplace_back();
    if (spec.from_worker_rank() == program_.worker_rank()) {
      STAGECOACH_ASSIGN_OR_RETURN(prepared_.senders.back(), SlotsOf(i));
    }
    if (spec.to_worker_rank() == program_.worker_rank()) {
      STAGECOACH_ASSIGN_OR_RETURN(prepared_.receivers.back(), SlotsOf(i));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TransferSlots>> ProgramPreparer::SlotsOf(int channel) const {
  const v1::ChannelSpec& spec = program_.channels(channel);
  const bool is_local = spec.from_worker_rank() == spec.to_worker_rank();
  if (is_local != (collaborators_.channels[static_cast<size_t>(channel)] == nullptr)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "channel ", channel, is_local ? " is within this worker and needs no transport" : " needs a transport"));
  }
  std::vector<TransferSlots::Slot> slots;
  for (int i = 0; i < program_.channel_slots(channel).slots_size(); ++i) {
    STAGECOACH_ASSIGN_OR_RETURN(const std::span<std::byte> buffer,
                                Region(program_.channel_slots(channel).slots(i), "a channel's slot"));
    const uint64_t needed =
        spec.kind() == v1::CHANNEL_KIND_TIE ? spec.bytes() : spec.bytes_per_sample() * collaborators_.micro_batch_size;
    if (buffer.size() < needed) {
      return absl::InvalidArgumentError(absl::StrCat("slot ", i, " of channel ", channel, " has ", buffer.size(),
                                                     " bytes, a transfer needs ", needed));
    }
    slots.push_back({.buffer = buffer});
  }
  const uint64_t row = collaborators_.seq_len * BytesOf(collaborators_.device.capabilities().compute_dtype);
  if (spec.kind() != v1::CHANNEL_KIND_TIE && spec.bytes_per_sample() % row != 0) {
    return absl::InvalidArgumentError(absl::StrCat("channel ", channel, ": ", spec.bytes_per_sample(),
                                                   " bytes per sample are not whole columns of ", row, " bytes"));
  }
  if (IsSkip(spec.kind())) {
    STAGECOACH_RETURN_IF_ERROR(CheckSkipChannel(spec, static_cast<uint32_t>(channel), row));
  }
  return std::make_unique<TransferSlots>(spec, static_cast<uint32_t>(channel),
                                         collaborators_.channels[static_cast<size_t>(channel)], std::move(slots),
                                         TransferSlots::Trace{collaborators_.trace, collaborators_.clock});
}

absl::Status ProgramPreparer::PrepareLoads(int stage) {
  const DeviceCapabilities& device = collaborators_.device.capabilities();
  const uint64_t part = AlignUp(collaborators_.micro_batch_size * collaborators_.seq_len * kTokenBytes);
  const v1::StageSlots& slots = program_.stages(stage);
  const bool is_first = slots.first_layer() == 0;
  // The last stage is the one that sends no activation.
  bool is_last = true;
  for (const v1::ChannelSpec& spec : program_.channels()) {
    if (spec.kind() == v1::CHANNEL_KIND_ACTIVATION && spec.from_stage() == slots.stage()) is_last = false;
  }
  needs_.push_back({.tokens = is_first, .labels = is_last});
  std::deque<LoadSlot>& loads = prepared_.load_slots.emplace_back();
  for (const v1::Slot& slot : slots.load()) {
    STAGECOACH_ASSIGN_OR_RETURN(const std::span<std::byte> region, Region(slot, "a load slot"));
    const uint64_t needed = (is_first ? part : 0) + (is_last ? part : 0);
    if (needed == 0 || region.size() < needed) {
      return absl::InvalidArgumentError(absl::StrCat("a load slot of stage ", slots.stage(), " has ", region.size(),
                                                     " bytes; the stage loads ", needed));
    }
    LoadSlot& load = loads.emplace_back();
    if (is_first) load.tokens = region.first(part);
    if (is_last) load.labels = region.subspan(is_first ? part : 0, part);
    if (!device.host_addressable || !device.completes_at_enqueue) {
      STAGECOACH_ASSIGN_OR_RETURN(load.staging, collaborators_.device.Allocate(needed, MemoryKind::kPinnedHost));
    }
  }
  return absl::OkStatus();
}

int ProgramPreparer::IndexOfStage(uint32_t stage) const {
  for (int i = 0; i < program_.stages_size(); ++i) {
    if (program_.stages(i).stage() == stage) return i;
  }
  return -1;
}

absl::StatusOr<PreparedInstruction> ProgramPreparer::PrepareInstruction(const v1::Instruction& instruction) {
  const v1::Action& action = instruction.action();
  const int stage = IndexOfStage(action.stage());
  if (stage < 0) return absl::InvalidArgumentError("the stage is not on this worker");
  if (action.micro_batch() >= std::max(program_.num_micro_batches(), 1u)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the program has only ", program_.num_micro_batches(), " micro-batches"));
  }
  PreparedInstruction prepared;
  prepared.action = action;
  prepared.micro_batch = action.micro_batch();
  prepared.stage = collaborators_.stages[static_cast<size_t>(stage)];
  prepared.state = collaborators_.states[static_cast<size_t>(stage)];
  STAGECOACH_RETURN_IF_ERROR(PrepareLoadSlot(instruction, static_cast<size_t>(stage), prepared));
  STAGECOACH_RETURN_IF_ERROR(PrepareTransfers(instruction, prepared));
  STAGECOACH_RETURN_IF_ERROR(PrepareSkips(instruction, prepared));
  STAGECOACH_RETURN_IF_ERROR(PrepareMemory(instruction, stage, prepared));
  STAGECOACH_RETURN_IF_ERROR(CheckTie(prepared));
  return prepared;
}

absl::Status ProgramPreparer::PrepareLoadSlot(const v1::Instruction& instruction, size_t stage,
                                              PreparedInstruction& prepared) {
  const v1::ActionKind kind = instruction.action().kind();
  if (kind >= v1::ACTION_KIND_SEND_FORWARD) return absl::OkStatus();
  if (instruction.load_slot() < 0) {
    const Needs& needs = needs_[stage];
    const bool is_needed = kind == v1::ACTION_KIND_LOAD ||
                           (kind == v1::ACTION_KIND_FORWARD && (needs.tokens || needs.labels)) ||
                           (kind == v1::ACTION_KIND_BACKWARD_WEIGHT && needs.labels);
    return is_needed ? absl::InvalidArgumentError("it names no load slot, and needs tokens or labels")
                     : absl::OkStatus();
  }
  std::deque<LoadSlot>& loads = prepared_.load_slots[stage];
  if (static_cast<size_t>(instruction.load_slot()) >= loads.size()) {
    return absl::InvalidArgumentError(absl::StrCat("there is no load slot ", instruction.load_slot()));
  }
  prepared.load = &loads[static_cast<size_t>(instruction.load_slot())];
  return absl::OkStatus();
}

absl::StatusOr<TransferSlots*> ProgramPreparer::End(const std::vector<std::unique_ptr<TransferSlots>>& ends,
                                                    uint32_t channel, int32_t slot, const char* what) const {
  if (channel >= ends.size() || ends[channel] == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("channel ", channel, " has no ", what, " here"));
  }
  if (slot < 0 || static_cast<size_t>(slot) >= ends[channel]->num_slots()) {
    return absl::InvalidArgumentError(absl::StrCat("channel ", channel, " has no slot ", slot));
  }
  return ends[channel].get();
}

absl::Status ProgramPreparer::PrepareTransfers(const v1::Instruction& instruction,
                                               PreparedInstruction& prepared) const {
  const v1::ActionKind kind = instruction.action().kind();
  const bool computes = kind == v1::ACTION_KIND_FORWARD || kind == v1::ACTION_KIND_BACKWARD_INPUT;
  const bool reads = (computes || kind == v1::ACTION_KIND_TIE_REDUCE) && instruction.recv_slot() >= 0;
  if (IsRecv(kind) || reads) {
    const uint32_t channel = IsRecv(kind) ? instruction.channel() : instruction.recv_channel();
    prepared.recv_slot = static_cast<size_t>(instruction.recv_slot());
    STAGECOACH_ASSIGN_OR_RETURN(prepared.recv, End(prepared_.receivers, channel, instruction.recv_slot(), "receiver"));
  }
  if (IsSend(kind) || (computes && instruction.send_slot() >= 0)) {
    const uint32_t channel = IsSend(kind) ? instruction.channel() : instruction.send_channel();
    prepared.send_slot = static_cast<size_t>(instruction.send_slot());
    STAGECOACH_ASSIGN_OR_RETURN(prepared.send, End(prepared_.senders, channel, instruction.send_slot(), "sender"));
  }
  const bool posts = IsRecv(kind) || (IsSend(kind) && kind != v1::ACTION_KIND_SEND_TIE);
  if (posts && (prepared.recv != nullptr ? prepared.recv : prepared.send)->is_local()) {
    return absl::InvalidArgumentError("it posts a transfer within this worker");
  }
  return absl::OkStatus();
}

absl::Status ProgramPreparer::PrepareSkips(const v1::Instruction& instruction, PreparedInstruction& prepared) const {
  for (const v1::SkipSlot& skip : instruction.skip_recv()) {
    STAGECOACH_ASSIGN_OR_RETURN(const SkipEnd end, PrepareSkip(instruction.action(), skip, /*is_read=*/true));
    prepared.skip_recv.push_back(end);
  }
  for (const v1::SkipSlot& skip : instruction.skip_send()) {
    STAGECOACH_ASSIGN_OR_RETURN(const SkipEnd end, PrepareSkip(instruction.action(), skip, /*is_read=*/false));
    prepared.skip_send.push_back(end);
  }
  const auto show = [](const std::vector<SkipEnd>& ends, std::vector<SkipTensors>& tensors) {
    for (const SkipEnd& end : ends) {
      const auto& connections = end.slots->spec().skip_connections();
      tensors.push_back({{connections.data(), static_cast<size_t>(connections.size())}, {}});
    }
  };
  show(prepared.skip_recv, prepared.skips_read);
  show(prepared.skip_send, prepared.skips_written);
  return absl::OkStatus();
}

absl::StatusOr<SkipEnd> ProgramPreparer::PrepareSkip(const v1::Action& action, const v1::SkipSlot& skip,
                                                     bool is_read) const {
  STAGECOACH_ASSIGN_OR_RETURN(TransferSlots * slots, End(is_read ? prepared_.receivers : prepared_.senders,
                                                         skip.channel(), skip.slot(), is_read ? "receiver" : "sender"));
  const v1::ChannelSpec& spec = slots->spec();
  const bool is_of_kind =
      (action.kind() == v1::ACTION_KIND_FORWARD && spec.kind() == v1::CHANNEL_KIND_SKIP) ||
      (action.kind() == v1::ACTION_KIND_BACKWARD_INPUT && spec.kind() == v1::CHANNEL_KIND_SKIP_GRADIENT);
  const bool is_of_stage = (is_read ? spec.to_stage() : spec.from_stage()) == action.stage();
  if (is_of_kind && is_of_stage) return SkipEnd{slots, static_cast<size_t>(skip.slot())};
  return absl::InvalidArgumentError(absl::StrCat(
      "it ", is_read ? "reads" : "writes", " channel ", skip.channel(), " as a skip edge, which is from stage ",
      spec.from_stage(), " to stage ", spec.to_stage(), " and of kind ", ChannelKindText(spec.kind())));
}

absl::StatusOr<std::span<std::byte>> ProgramPreparer::StageSlot(
    const google::protobuf::RepeatedPtrField<v1::Slot>& slots, int index, uint64_t needed, bool is_used,
    const char* what) const {
  if (index < 0) {
    if (!is_used || needed == 0) return std::span<std::byte>();
    return absl::InvalidArgumentError(absl::StrCat("it names no ", what, ", and the stage needs ", needed, " bytes"));
  }
  if (index >= slots.size()) return absl::InvalidArgumentError(absl::StrCat("there is no ", what, " ", index));
  STAGECOACH_ASSIGN_OR_RETURN(const std::span<std::byte> region, Region(slots.Get(index), what));
  if (region.size() < needed) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " ", index, " has ", region.size(), " bytes, the stage needs ", needed));
  }
  return region;
}

absl::Status ProgramPreparer::PrepareMemory(const v1::Instruction& instruction, int stage,
                                            PreparedInstruction& prepared) const {
  const v1::ActionKind kind = instruction.action().kind();
  const bool is_forward = kind == v1::ACTION_KIND_FORWARD;
  const bool is_recomputation = kind == v1::ACTION_KIND_RECOMPUTE;
  const bool is_input = kind == v1::ACTION_KIND_BACKWARD_INPUT;
  if (!is_forward && !is_recomputation && !is_input && kind != v1::ACTION_KIND_BACKWARD_WEIGHT) {
    return absl::OkStatus();
  }
  const v1::StageSlots& slots = program_.stages(stage);
  const StageSlotBytes& needed = prepared.stage->slot_bytes();
  StageMemoryView& memory = prepared.memory;
  STAGECOACH_ASSIGN_OR_RETURN(memory.saved, StageSlot(slots.saved(), instruction.saved_slot(), needed.saved,
                                                      is_forward || is_input, "saved slot"));
  STAGECOACH_ASSIGN_OR_RETURN(memory.shared,
                              StageSlot(slots.shared(), instruction.shared_slot(), needed.shared, true, "shared slot"));
  const bool recomputes = needed.recomputed > 0;
  if (is_recomputation && !recomputes) return absl::InvalidArgumentError("its stage has no layers to recompute");
  STAGECOACH_ASSIGN_OR_RETURN(memory.pending, StageSlot(slots.pending(), instruction.pending_slot(),
                                                        is_forward ? needed.remade : needed.pending,
                                                        !is_forward || recomputes, "pending slot"));
  const bool uses_recomputed = recomputes && kind != v1::ACTION_KIND_BACKWARD_WEIGHT;
  STAGECOACH_ASSIGN_OR_RETURN(memory.recomputed, StageSlot(slots.recomputed(), instruction.recomputed_slot(),
                                                           needed.recomputed, uses_recomputed, "recomputed slot"));
  STAGECOACH_ASSIGN_OR_RETURN(memory.scratch, Region(program_.scratch(), "the scratch region"));
  if (memory.scratch.size() < needed.scratch) {
    return absl::InvalidArgumentError(
        absl::StrCat("the scratch region has ", memory.scratch.size(), " bytes, the stage needs ", needed.scratch));
  }
  return absl::OkStatus();
}

absl::Status ProgramPreparer::CheckTie(const PreparedInstruction& prepared) const {
  const v1::ActionKind kind = prepared.action.kind();
  if (kind != v1::ACTION_KIND_SEND_TIE && kind != v1::ACTION_KIND_TIE_REDUCE) return absl::OkStatus();
  const Tensor gradient = prepared.state->tied_gradient();
  if (gradient.empty()) return absl::InvalidArgumentError("the stage has no tied tensor");
  for (const TransferSlots* slots : {prepared.recv, prepared.send}) {
    if (slots != nullptr && slots->spec().bytes() != gradient.bytes()) {
      return absl::InvalidArgumentError(absl::StrCat("the channel carries ", slots->spec().bytes(),
                                                     " bytes, the tied tensor has ", gradient.bytes()));
    }
  }
  return absl::OkStatus();
}

// Visits what the device reads or writes in the instruction.
template <typename Visit>
void ProgramPreparer::ForEachBuffer(const PreparedInstruction& prepared, Visit visit) const {
  if (IsRecv(prepared.action.kind())) return;  // the transport does
  if (prepared.recv != nullptr) visit(prepared.recv->slot(prepared.recv_slot).buffer);
  if (prepared.send != nullptr) visit(prepared.send->slot(prepared.send_slot).buffer);
  for (const SkipEnd& skip : prepared.skip_recv) visit(skip.slots->slot(skip.slot).buffer);
  for (const SkipEnd& skip : prepared.skip_send) visit(skip.slots->slot(skip.slot).buffer);
  if (prepared.load != nullptr) visit(prepared.load->tokens), visit(prepared.load->labels);
  const StageMemoryView& memory = prepared.memory;
  for (const std::span<std::byte> region :
       {memory.saved, memory.shared, memory.pending, memory.recomputed, memory.scratch}) {
    visit(region);
  }
}

// Each post waits for the newest instruction before it that uses bytes of its buffer, under whatever name. In stream
// order that instruction comes after all others that use them.
void ProgramPreparer::LinkEvents() {
  const auto offset = [this](std::span<std::byte> buffer) {
    return static_cast<uint64_t>(buffer.data() - collaborators_.arena.data());
  };
  BufferUses uses;
  std::vector<PreparedInstruction>& instructions = prepared_.instructions;
  for (size_t i = 0; i < instructions.size(); ++i) {
    PreparedInstruction& instruction = instructions[i];
    const v1::ActionKind kind = instruction.action.kind();
    if (IsRecv(kind) || (IsSend(kind) && kind != v1::ACTION_KIND_SEND_TIE)) {
      const std::span<std::byte> buffer = IsRecv(kind) ? instruction.recv->slot(instruction.recv_slot).buffer
                                                       : instruction.send->slot(instruction.send_slot).buffer;
      if (const auto last = uses.LastUse(offset(buffer), buffer.size()); last.has_value()) {
        EventRef*& used = instructions[*last].used;
        if (used == nullptr) used = &prepared_.events.emplace_back();
        instruction.ready = used;
      }
      continue;
    }
    ForEachBuffer(instruction, [&](std::span<std::byte> buffer) {
      if (!buffer.empty()) uses.Use(offset(buffer), buffer.size(), i);
    });
  }
}

}  // namespace

absl::StatusOr<PreparedProgram> PrepareProgram(const v1::StageProgram& program,
                                               const Executor::Collaborators& collaborators) {
  return ProgramPreparer(program, collaborators).Prepare();
}

}  // namespace stagecoach
