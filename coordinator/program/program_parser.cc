#include "coordinator/program/program_parser.h"

#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"
#include "coordinator/program/lowering.h"
#include "coordinator/program/text_line.h"

namespace stagecoach {
namespace {

constexpr uint64_t kAnyNumber = std::numeric_limits<uint64_t>::max();
constexpr int32_t kNoSlot = -1;

// Two numbers with `separator` between: 1.0, 3->4, 64+128.
absl::StatusOr<std::pair<uint64_t, uint64_t>> ParsePair(TextLine& line, absl::string_view what,
                                                        absl::string_view separator, uint64_t limit) {
  TextLine at = line;
  STAGECOACH_ASSIGN_OR_RETURN(const absl::string_view word, line.Word(what));
  const std::pair<absl::string_view, absl::string_view> halves = absl::StrSplit(word, absl::MaxSplits(separator, 1));
  const auto is_number = [](absl::string_view half) {
    return !half.empty() && half.find_first_not_of("0123456789") == absl::string_view::npos;
  };
  std::pair<uint64_t, uint64_t> numbers;
  if (!is_number(halves.first) || !is_number(halves.second) || !absl::SimpleAtoi(halves.first, &numbers.first) ||
      !absl::SimpleAtoi(halves.second, &numbers.second) || numbers.first > limit || numbers.second > limit) {
    return at.Error("expected ", what, ", two numbers with ", separator, " between");
  }
  return numbers;
}

absl::StatusOr<v1::Slot> ParseSlot(TextLine& line) {
  STAGECOACH_ASSIGN_OR_RETURN(const auto numbers, ParsePair(line, "offset and bytes", "+", kAnyNumber));
  v1::Slot slot;
  slot.set_offset(numbers.first);
  slot.set_bytes(numbers.second);
  return slot;
}

// As many as there are before the next label.
absl::Status ParseSlots(TextLine& line, google::protobuf::RepeatedPtrField<v1::Slot>& slots) {
  while (line.has_number()) {
    STAGECOACH_ASSIGN_OR_RETURN(*slots.Add(), ParseSlot(line));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::ChannelKind> ParseChannelKind(TextLine& line) {
  for (const auto& [name, kind] :
       {std::pair("activation", v1::CHANNEL_KIND_ACTIVATION), std::pair("gradient", v1::CHANNEL_KIND_GRADIENT),
        std::pair("skip", v1::CHANNEL_KIND_SKIP), std::pair("skip_gradient", v1::CHANNEL_KIND_SKIP_GRADIENT),
        std::pair("tie", v1::CHANNEL_KIND_TIE), std::pair("state", v1::CHANNEL_KIND_STATE),
        std::pair("unspecified", v1::CHANNEL_KIND_UNSPECIFIED)}) {
    if (line.TakeIf(name)) return kind;
  }
  return line.Error("expected activation, gradient, skip, skip_gradient, tie or state");
}

absl::Status ParseProgramLine(TextLine& line, v1::StageProgram& program) {
  STAGECOACH_ASSIGN_OR_RETURN(const absl::string_view schedule, line.Word("schedule's name"));
  STAGECOACH_ASSIGN_OR_RETURN(const uint64_t worker, line.Labelled("worker"));
  STAGECOACH_ASSIGN_OR_RETURN(const uint64_t num_micro_batches, line.Labelled("micro_batches"));
  program.set_schedule(std::string(schedule));
  program.set_worker_rank(static_cast<uint32_t>(worker));
  program.set_num_micro_batches(static_cast<uint32_t>(num_micro_batches));
  program.set_forward_only(line.TakeIf("forward_only"));
  STAGECOACH_ASSIGN_OR_RETURN(const uint64_t arena_bytes, line.Labelled("arena", kAnyNumber));
  program.set_arena_bytes(arena_bytes);
  STAGECOACH_RETURN_IF_ERROR(line.Expect("scratch"));
  STAGECOACH_ASSIGN_OR_RETURN(*program.mutable_scratch(), ParseSlot(line));
  return line.ExpectEnd();
}

absl::Status ParseChannelLine(TextLine& line, v1::StageProgram& program) {
  constexpr uint64_t kLimit = std::numeric_limits<uint32_t>::max();
  STAGECOACH_RETURN_IF_ERROR(line.Expect(absl::StrCat(program.channels_size())));
  v1::ChannelSpec& channel = *program.add_channels();
  STAGECOACH_ASSIGN_OR_RETURN(const v1::ChannelKind kind, ParseChannelKind(line));
  STAGECOACH_RETURN_IF_ERROR(line.Expect("stage"));
  STAGECOACH_ASSIGN_OR_RETURN(const auto stages, ParsePair(line, "stages", "->", kLimit));
  STAGECOACH_RETURN_IF_ERROR(line.Expect("worker"));
  STAGECOACH_ASSIGN_OR_RETURN(const auto workers, ParsePair(line, "workers", "->", kLimit));
  STAGECOACH_ASSIGN_OR_RETURN(const uint64_t num_slots, line.Labelled("slots"));
  STAGECOACH_ASSIGN_OR_RETURN(const uint64_t bytes, line.Labelled("bytes", kAnyNumber));
  STAGECOACH_ASSIGN_OR_RETURN(const uint64_t bytes_per_sample, line.Labelled("per_sample", kAnyNumber));
  channel.set_kind(kind);
  channel.set_from_stage(static_cast<uint32_t>(stages.first));
  channel.set_to_stage(static_cast<uint32_t>(stages.second));
  channel.set_from_worker_rank(static_cast<uint32_t>(workers.first));
  channel.set_to_worker_rank(static_cast<uint32_t>(workers.second));
  channel.set_num_slots(static_cast<uint32_t>(num_slots));
  channel.set_bytes(bytes);
  channel.set_bytes_per_sample(bytes_per_sample);
  if (line.TakeIf("connections")) {
    while (line.has_number()) {
      STAGECOACH_ASSIGN_OR_RETURN(const uint64_t connection, line.Number("skip connection"));
      channel.add_skip_connections(static_cast<uint32_t>(connection));
    }
  }
  v1::ChannelSlots& slots = *program.add_channel_slots();
  if (line.TakeIf("at")) STAGECOACH_RETURN_IF_ERROR(ParseSlots(line, *slots.mutable_slots()));
  return line.ExpectEnd();
}

absl::Status ParseStageLine(TextLine& line, v1::StageProgram& program) {
  v1::StageSlots& stage = *program.add_stages();
  STAGECOACH_ASSIGN_OR_RETURN(const uint64_t number, line.Number("stage"));
  stage.set_stage(static_cast<uint32_t>(number));
  STAGECOACH_RETURN_IF_ERROR(line.Expect("layers"));
  STAGECOACH_ASSIGN_OR_RETURN(const auto layers, ParsePair(line, "layers", "..", std::numeric_limits<uint32_t>::max()));
  stage.set_first_layer(static_cast<uint32_t>(layers.first));
  stage.set_last_layer(static_cast<uint32_t>(layers.second));
  stage.set_frozen_below(line.TakeIf("frozen_below"));
  for (const auto& [label, slots] :
       {std::pair("load", stage.mutable_load()), std::pair("saved", stage.mutable_saved()),
        std::pair("shared", stage.mutable_shared()), std::pair("pending", stage.mutable_pending()),
        std::pair("recomputed", stage.mutable_recomputed())}) {
    if (line.TakeIf(label)) STAGECOACH_RETURN_IF_ERROR(ParseSlots(line, *slots));
  }
  if (line.TakeIf("recomputes")) {
    while (!line.at_end()) {
      STAGECOACH_ASSIGN_OR_RETURN(const uint64_t layer, line.Number("layer"));
      stage.add_recomputed_layers(static_cast<uint32_t>(layer));
    }
  }
  return line.ExpectEnd();
}

// kNoSlot when the label is not there.
absl::StatusOr<int32_t> ParseSlotIndex(TextLine& line, absl::string_view label) {
  if (!line.TakeIf(label)) return kNoSlot;
  STAGECOACH_ASSIGN_OR_RETURN(const uint64_t slot, line.Number("slot", std::numeric_limits<int32_t>::max()));
  return static_cast<int32_t>(slot);
}

struct TransferSlot {
  uint32_t channel = 0;
  int32_t slot = kNoSlot;
};
absl::StatusOr<TransferSlot> ParseTransferSlot(TextLine& line) {
  STAGECOACH_ASSIGN_OR_RETURN(const auto numbers,
                              ParsePair(line, "channel and slot", ".", std::numeric_limits<int32_t>::max()));
  return TransferSlot{static_cast<uint32_t>(numbers.first), static_cast<int32_t>(numbers.second)};
}
absl::StatusOr<TransferSlot> ParseTransfer(TextLine& line, absl::string_view label) {
  return line.TakeIf(label) ? ParseTransferSlot(line) : TransferSlot{};
}

absl::Status ParseSkips(TextLine& line, absl::string_view label,
                        google::protobuf::RepeatedPtrField<v1::SkipSlot>& skips) {
  if (!line.TakeIf(label)) return absl::OkStatus();
  while (line.has_number()) {
    STAGECOACH_ASSIGN_OR_RETURN(const TransferSlot transfer, ParseTransferSlot(line));
    v1::SkipSlot& skip = *skips.Add();
    skip.set_channel(transfer.channel);
    skip.set_slot(transfer.slot);
  }
  return absl::OkStatus();
}

absl::Status ParseInstructionLine(TextLine& line, v1::StageProgram& program) {
  v1::Instruction& instruction = *program.add_instructions();
  STAGECOACH_ASSIGN_OR_RETURN(*instruction.mutable_action(), line.Action());
  STAGECOACH_ASSIGN_OR_RETURN(const std::optional<uint64_t> sequence, line.NumberBehindHash());
  STAGECOACH_ASSIGN_OR_RETURN(const int32_t load_slot, ParseSlotIndex(line, "load"));
  STAGECOACH_ASSIGN_OR_RETURN(const TransferSlot recv, ParseTransfer(line, "recv"));
  STAGECOACH_ASSIGN_OR_RETURN(const TransferSlot send, ParseTransfer(line, "send"));
  STAGECOACH_RETURN_IF_ERROR(ParseSkips(line, "skip_recv", *instruction.mutable_skip_recv()));
  STAGECOACH_RETURN_IF_ERROR(ParseSkips(line, "skip_send", *instruction.mutable_skip_send()));
  STAGECOACH_ASSIGN_OR_RETURN(const int32_t saved_slot, ParseSlotIndex(line, "saved"));
  STAGECOACH_ASSIGN_OR_RETURN(const int32_t shared_slot, ParseSlotIndex(line, "shared"));
  STAGECOACH_ASSIGN_OR_RETURN(const int32_t pending_slot, ParseSlotIndex(line, "pending"));
  STAGECOACH_ASSIGN_OR_RETURN(const int32_t recomputed_slot, ParseSlotIndex(line, "recomputed"));
  instruction.set_load_slot(load_slot);
  instruction.set_recv_slot(recv.slot);
  instruction.set_send_slot(send.slot);
  instruction.set_saved_slot(saved_slot);
  instruction.set_shared_slot(shared_slot);
  instruction.set_pending_slot(pending_slot);
  instruction.set_recomputed_slot(recomputed_slot);
  if (sequence.has_value()) {  // a post, which has one channel
    instruction.set_sequence(*sequence);
    instruction.set_channel(recv.slot >= 0 ? recv.channel : send.channel);
  } else {
    instruction.set_recv_channel(recv.channel);
    instruction.set_send_channel(send.channel);
  }
  return line.ExpectEnd();
}

absl::Status ParseLine(TextLine& line, v1::StageProgram& program) {
  if (line.TakeIf("channel")) return ParseChannelLine(line, program);
  if (line.TakeIf("stage")) return ParseStageLine(line, program);
  return ParseInstructionLine(line, program);
}

}  // namespace

absl::StatusOr<std::vector<v1::StageProgram>> ParseProgramText(absl::string_view text) {
  std::vector<v1::StageProgram> programs;
  for (TextLine& line : TextLines(text)) {
    if (line.TakeIf("program")) {
      STAGECOACH_RETURN_IF_ERROR(ParseProgramLine(line, programs.emplace_back()));
      continue;
    }
    if (programs.empty()) return line.Error("expected program");
    STAGECOACH_RETURN_IF_ERROR(ParseLine(line, programs.back()));
  }
  if (programs.empty()) return absl::InvalidArgumentError("the text is empty");
  for (v1::StageProgram& program : programs) program.set_content_hash(ContentHash(program));
  return programs;
}

}  // namespace stagecoach
