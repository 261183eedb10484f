#include "worker/transport/ucx/ucx_message.h"

#include <cstring>

#include "worker/transport/ucx/wire.h"

namespace stagecoach {
namespace {

// What a peer says is shown to users: no more of it than an error needs.
constexpr size_t kLongestText = 1024;

static_assert(sizeof(UcxMessageHeader) == 16 && sizeof(UcxTransferRecord) == 40, "these are the wire's layouts");

void PutHeader(WireWriter& writer, UcxMessageType type, uint64_t to_token, WorkerRank from) {
  writer.Put(to_token).Put(from.value()).Put(type).Put(uint16_t{0});
}

void SkipHeader(WireReader& reader) {
  reader.Get<uint64_t>();
  reader.Get<uint64_t>();
}

}  // namespace

std::optional<UcxMessageHeader> ParseHeader(std::span<const std::byte> message) {
  UcxMessageHeader header;
  if (message.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, message.data(), sizeof(header));
  return header;
}

std::string UcxHello::Pack(uint64_t to_token) const {
  WireWriter writer;
  PutHeader(writer, UcxMessageType::kHello, to_token, rank);
  writer.PutString(fence.job.value()).Put(fence.epoch.value()).Put(fence.incarnation.value());
  return writer.Put(rank.value()).PutString(endpoint).Take();
}

std::optional<UcxHello> UcxHello::Parse(std::span<const std::byte> message) {
  WireReader reader(message);
  SkipHeader(reader);
  UcxHello hello;
  hello.fence.job = JobId(reader.GetString());
  hello.fence.epoch = Epoch(reader.Get<uint64_t>());
  hello.fence.incarnation = Incarnation(reader.Get<uint64_t>());
  hello.rank = WorkerRank(reader.Get<uint32_t>());
  hello.endpoint = reader.GetString();
  if (!reader.at_end() || hello.fence.job.value().size() > kLongestText) return std::nullopt;
  return hello;
}

std::string UcxEdgeMessage::Pack(uint64_t to_token, WorkerRank from) const {
  WireWriter writer;
  PutHeader(writer, type, to_token, from);
  writer.Put(static_cast<uint32_t>(key.is_sender)).Put(key.from_stage).Put(key.to_stage);
  return writer.Put(static_cast<uint32_t>(key.kind)).Put(end).Put(num_slots).Put(guard_address).Put(guard_value).Take();
}

std::optional<UcxEdgeMessage> UcxEdgeMessage::Parse(std::span<const std::byte> message) {
  WireReader reader(message);
  SkipHeader(reader);
  UcxEdgeMessage parsed;
  parsed.key.is_sender = reader.Get<uint32_t>() != 0;
  parsed.key.from_stage = reader.Get<uint32_t>();
  parsed.key.to_stage = reader.Get<uint32_t>();
  const auto kind = reader.Get<uint32_t>();
  parsed.end = reader.Get<uint32_t>();
  parsed.num_slots = reader.Get<uint32_t>();
  parsed.guard_address = reader.Get<uint64_t>();
  parsed.guard_value = reader.Get<uint64_t>();
  if (!reader.at_end() || !v1::ChannelKind_IsValid(static_cast<int>(kind))) return std::nullopt;
  parsed.key.kind = static_cast<v1::ChannelKind>(kind);
  return parsed;
}

std::string UcxTextMessage::Pack(uint64_t to_token, WorkerRank from) const {
  WireWriter writer;
  PutHeader(writer, type, to_token, from);
  return writer.Put(end).PutString(text.substr(0, kLongestText)).Take();
}

std::optional<UcxTextMessage> UcxTextMessage::Parse(std::span<const std::byte> message) {
  WireReader reader(message);
  SkipHeader(reader);
  UcxTextMessage parsed;
  parsed.end = reader.Get<uint32_t>();
  parsed.text = reader.GetString();
  if (!reader.at_end() || parsed.text.size() > kLongestText) return std::nullopt;
  return parsed;
}

UcxTransferHeader::UcxTransferHeader(UcxMessageType type, uint64_t to_token, WorkerRank from) {
  const UcxMessageHeader header{to_token, from.value(), type, 0};
  std::memcpy(bytes_, &header, sizeof(header));
  size_ = sizeof(header);
}

void UcxTransferHeader::Add(const UcxTransferRecord& record) {
  std::memcpy(bytes_ + size_, &record, sizeof(record));
  size_ += sizeof(record);
}

void UcxTransferHeader::SetNumReady(uint16_t num_ready) {
  std::memcpy(bytes_ + offsetof(UcxMessageHeader, num_ready), &num_ready, sizeof(num_ready));
}

std::optional<UcxTransferRecord> UcxTransferHeader::Record(std::span<const std::byte> message, size_t index) {
  UcxTransferRecord record;
  const size_t offset = sizeof(UcxMessageHeader) + index * sizeof(record);
  if (message.size() < offset + sizeof(record)) return std::nullopt;
  std::memcpy(&record, message.data() + offset, sizeof(record));
  return record;
}

}  // namespace stagecoach
