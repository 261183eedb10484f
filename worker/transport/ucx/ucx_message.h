#ifndef STAGECOACH_WORKER_TRANSPORT_UCX_UCX_MESSAGE_H_
#define STAGECOACH_WORKER_TRANSPORT_UCX_UCX_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "common/ids.h"
#include "stagecoach/v1/program.pb.h"
#include "worker/transport/transfer_tag.h"
#include "worker/transport/transport.h"

namespace stagecoach {

// The messages between two transports. An edge's transfers:
//
//   sender                      receiver
//     open(edge, its end)   ->           each end says under which number it is addressed, and how many slots it has
//                           <-  open(edge, its end)
//                           <-  ready(k)   the k-th receive is posted: its tag, its size
//     data(k, offset) ...   ->             when the k-th send is posted and both agree: pieces of it, as payload
//     mismatch(text)        ->             when they do not
//
// Where the receiver can read the sender's memory, large transfers go so instead of data(k, offset) ...:
//
//     offer(k, address)     ->             the bytes are there until they are taken or the sender's guard is cleared
//                           <-  taken(k)
//
// So no byte leaves before its place is known, a sender holds nothing for a receiver that is not there, and whatever
// UCX has been given ends soon unless a peer dies. `ready` records travel in front of data that goes the same way, when
// there is some: in a steady pipeline a transfer costs one message.
enum class UcxMessageType : uint16_t {
  kHello = 1,
  kWelcome,
  kRefused,
  kGoodbye,
  kOpen,
  kClose,
  kReady,
  kData,
  kMismatch,
  kOffer,
  kTaken
};

// In front of every message.
struct UcxMessageHeader {
  uint64_t to_token = 0;  // of the receiving transport, see UcxEndpoint
  uint32_t from_rank = 0;
  UcxMessageType type = UcxMessageType::kHello;
  uint16_t num_ready = 0;  // records after the header (kReady), or after the first record (kData, kOffer, kTaken)
};

// A record of a transfer.
struct UcxTransferRecord {
  uint32_t end = 0;  // number of the addressed end
  uint32_t reserved = 0;
  uint64_t sequence = 0;  // of the transfer on its edge, from 0
  uint64_t tag = 0;
  uint64_t bytes = 0;   // of the whole transfer
  uint64_t offset = 0;  // of this piece (kData); address of the bytes at the sender (kOffer)
};

inline constexpr size_t kMostReadyRecords = 8;
inline constexpr size_t kLargestTransferHeader =
    sizeof(UcxMessageHeader) + (1 + kMostReadyRecords) * sizeof(UcxTransferRecord);

// The first message of a connection.
struct UcxHello {
  TransportFence fence;
  WorkerRank rank;
  std::string endpoint;  // of the transport that speaks

  std::string Pack(uint64_t to_token) const;
  static std::optional<UcxHello> Parse(std::span<const std::byte> message);
};

// An edge as seen by the receiver of the message: one's own end of it.
struct UcxEdgeKey {
  bool is_sender = false;  // of the end that is addressed
  uint32_t from_stage = 0;
  uint32_t to_stage = 0;
  v1::ChannelKind kind = v1::CHANNEL_KIND_UNSPECIFIED;
  auto operator<=>(const UcxEdgeKey&) const = default;

  UcxEdgeKey OfOtherEnd() const { return {!is_sender, from_stage, to_stage, kind}; }
};

// Of kOpen and, with the key alone, of kClose.
struct UcxEdgeMessage {
  UcxMessageType type = UcxMessageType::kOpen;
  UcxEdgeKey key;
  uint32_t end = 0;
  uint32_t num_slots = 0;
  uint64_t guard_address = 0;  // of the end's MemoryGuard
  uint64_t guard_value = 0;

  std::string Pack(uint64_t to_token, WorkerRank from) const;
  static std::optional<UcxEdgeMessage> Parse(std::span<const std::byte> message);
};

// Of kWelcome, kRefused, kGoodbye and kMismatch.
struct UcxTextMessage {
  UcxMessageType type = UcxMessageType::kGoodbye;
  uint32_t end = 0;  // kMismatch: the addressed end
  std::string text;

  std::string Pack(uint64_t to_token, WorkerRank from) const;
  static std::optional<UcxTextMessage> Parse(std::span<const std::byte> message);
};

std::optional<UcxMessageHeader> ParseHeader(std::span<const std::byte> message);

// The header and records of a message about transfers, built in place.
class UcxTransferHeader {
 public:
  UcxTransferHeader(UcxMessageType type, uint64_t to_token, WorkerRank from);
  void Add(const UcxTransferRecord& record);
  void SetNumReady(uint16_t num_ready);
  std::span<const std::byte> bytes() const { return {bytes_, size_}; }

  // Record `index` of a message, or nothing when it is shorter.
  static std::optional<UcxTransferRecord> Record(std::span<const std::byte> message, size_t index);

 private:
  std::byte bytes_[kLargestTransferHeader];
  size_t size_ = 0;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_TRANSPORT_UCX_UCX_MESSAGE_H_
