// ProgramText and ContentHash of lowering.h.

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/program/lowering.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "xxhash.h"

namespace stagecoach {
namespace {

absl::string_view KindText(v1::ChannelKind kind) {
  switch (kind) {
    case v1::CHANNEL_KIND_ACTIVATION:
      return "activation";
    case v1::CHANNEL_KIND_GRADIENT:
      return "gradient";
    case v1::CHANNEL_KIND_TIE:
      return "tie";
    case v1::CHANNEL_KIND_STATE:
      return "state";
    case v1::CHANNEL_KIND_SKIP:
      return "skip";
    case v1::CHANNEL_KIND_SKIP_GRADIENT:
      return "skip_gradient";
    default:
      return "unspecified";
  }
}

std::string SlotText(const v1::Slot& slot) { return absl::StrCat(slot.offset(), "+", slot.bytes()); }

void AppendSlots(absl::string_view name, const google::protobuf::RepeatedPtrField<v1::Slot>& slots, std::string& text) {
  if (slots.empty()) return;
  absl::StrAppend(&text, " ", name);
  for (const v1::Slot& slot : slots) absl::StrAppend(&text, " ", SlotText(slot));
}

std::string ChannelLine(const v1::StageProgram& program, int index) {
  const v1::ChannelSpec& channel = program.channels(index);
  std::string text = absl::StrCat("channel ", index, " ", KindText(channel.kind()), " stage ", channel.from_stage(),
                                  "->", channel.to_stage(), " worker ", channel.from_worker_rank(), "->",
                                  channel.to_worker_rank(), " slots ", channel.num_slots(), " bytes ", channel.bytes());
  absl::StrAppend(&text, " per_sample ", channel.bytes_per_sample());
  if (!channel.skip_connections().empty()) {
    absl::StrAppend(&text, " connections ", absl::StrJoin(channel.skip_connections(), " "));
  }
  if (index < program.channel_slots_size()) AppendSlots("at", program.channel_slots(index).slots(), text);
  return text;
}

std::string StageLine(const v1::StageSlots& stage) {
  std::string text = absl::StrCat("stage ", stage.stage(), " layers ", stage.first_layer(), "..", stage.last_layer());
  if (stage.frozen_below()) absl::StrAppend(&text, " frozen_below");
  AppendSlots("load", stage.load(), text);
  AppendSlots("saved", stage.saved(), text);
  AppendSlots("shared", stage.shared(), text);
  AppendSlots("pending", stage.pending(), text);
  AppendSlots("recomputed", stage.recomputed(), text);
  if (!stage.recomputed_layers().empty()) {
    absl::StrAppend(&text, " recomputes ", absl::StrJoin(stage.recomputed_layers(), " "));
  }
  return text;
}

using SkipSlots = google::protobuf::RepeatedPtrField<v1::SkipSlot>;
void AppendSkips(absl::string_view name, const SkipSlots& skips, std::string& text) {
  if (skips.empty()) return;
  absl::StrAppend(&text, " ", name);
  for (const v1::SkipSlot& skip : skips) absl::StrAppend(&text, " ", skip.channel(), ".", skip.slot());
}

// "2F0 recv 1.0 send 2.1 skip_send 5.0 6.1 saved 0 shared 0": channel and slot of a transfer joined by a dot, the
// sequence behind #.
std::string InstructionLine(const v1::Instruction& instruction) {
  std::string text = ActionText(instruction.action());
  const v1::ActionKind kind = instruction.action().kind();
  const bool posts = (kind >= v1::ACTION_KIND_SEND_FORWARD && kind <= v1::ACTION_KIND_RECV_BACKWARD) ||
                     kind == v1::ACTION_KIND_SEND_TIE || kind == v1::ACTION_KIND_RECV_TIE;
  if (posts) absl::StrAppend(&text, " #", instruction.sequence());
  const auto append = [&text](absl::string_view name, int32_t slot) {
    if (slot >= 0) absl::StrAppend(&text, " ", name, " ", slot);
  };
  const auto append_transfer = [&](absl::string_view name, uint32_t channel, int32_t slot) {
    if (slot >= 0) absl::StrAppend(&text, " ", name, " ", posts ? instruction.channel() : channel, ".", slot);
  };
  append("load", instruction.load_slot());
  append_transfer("recv", instruction.recv_channel(), instruction.recv_slot());
  append_transfer("send", instruction.send_channel(), instruction.send_slot());
  AppendSkips("skip_recv", instruction.skip_recv(), text);
  AppendSkips("skip_send", instruction.skip_send(), text);
  append("saved", instruction.saved_slot());
  append("shared", instruction.shared_slot());
  append("pending", instruction.pending_slot());
  append("recomputed", instruction.recomputed_slot());
  return text;
}

}  // namespace

std::string ProgramText(const v1::StageProgram& program) {
  std::string text = absl::StrCat("program ", program.schedule(), " worker ", program.worker_rank(), " micro_batches ",
                                  program.num_micro_batches(), program.forward_only() ? " forward_only" : "", " arena ",
                                  program.arena_bytes(), " scratch ", SlotText(program.scratch()), "\n");
  for (int i = 0; i < program.channels_size(); ++i) absl::StrAppend(&text, ChannelLine(program, i), "\n");
  for (const v1::StageSlots& stage : program.stages()) absl::StrAppend(&text, StageLine(stage), "\n");
  for (const v1::Instruction& instruction : program.instructions()) {
    absl::StrAppend(&text, InstructionLine(instruction), "\n");
  }
  return text;
}

std::string ContentHash(const v1::StageProgram& program) {
  v1::StageProgram hashed = program;
  hashed.clear_content_hash();
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    hashed.SerializeToCodedStream(&coded);
  }
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  return std::string(reinterpret_cast<const char*>(canonical.digest), sizeof(canonical.digest));
}

}  // namespace stagecoach
