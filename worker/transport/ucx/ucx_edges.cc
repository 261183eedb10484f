#include "worker/transport/ucx/ucx_edges.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "worker/transport/transport_errors.h"

namespace stagecoach {
namespace {

// Bounds on what a peer can make this process remember.
constexpr uint32_t kMostSlots = 1 << 16;
constexpr size_t kMostEntries = 1 << 16;

// Between two calls of UCX's progress.
constexpr int kMostPiecesPerMove = 4;
// Of what is read from a peer's memory: Abort waits for so much.
constexpr size_t kLargestRead = size_t{1} << 20;

absl::Status BadMessageError(const UcxEnd& end, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(end.place().name, ": worker rank ", end.place().peer.value(), " sent ", what,
                                          ", which the protocol does not allow"));
}

}  // namespace

UcxEdges::UcxEdges(UcxWorker& worker, UcxPeers& peers, const Sizes& sizes)
    : worker_(worker), peers_(peers), sizes_(sizes) {}

absl::StatusOr<std::shared_ptr<UcxEnd>> UcxEdges::Open(const v1::ChannelSpec& spec, UcxPeer& peer, bool is_sender,
                                                       UcxDriver& driver) {
  const std::string name = ChannelText(spec);
  if (spec.num_slots() == 0 || spec.num_slots() > kMostSlots) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": num_slots is ", spec.num_slots(), ", not 1 to ", kMostSlots));
  }
  if (!peer.gone.ok()) return peer.gone;
  const UcxEdgeKey key{is_sender, spec.from_stage(), spec.to_stage(), spec.kind()};
  Entry* entry = EntryOf(peer, key);
  if (entry == nullptr) return absl::ResourceExhaustedError(absl::StrCat(name, ": there are too many channels"));
  if (entry->was_opened) return absl::AlreadyExistsError(absl::StrCat(name, ": this end is open already"));
  const auto number = static_cast<uint32_t>(ends_.size());
  UcxEnd::Place place{.name = name, .key = key, .peer = peer.rank, .number = number, .route = peer.route};
  entry->was_opened = true;
  entry->end = std::make_shared<UcxEnd>(std::move(place), spec.num_slots(), driver);
  ends_.push_back(entry->end);
  for (auto* list : {&listed_, &moving_, &announcing_, &blocked_, &waiting_for_event_}) list->reserve(ends_.size());
  if (!is_sender) reading_.reserve(reading_.capacity() + spec.num_slots());
  const UcxEdgeMessage open{.type = UcxMessageType::kOpen,
                            .key = key.OfOtherEnd(),
                            .end = number,
                            .num_slots = spec.num_slots(),
                            .guard_address = entry->end->guard_.address(),
                            .guard_value = entry->end->guard_.value()};
  peers_.Send(peer, open.Pack(peer.endpoint.token, peers_.self()));
  if (entry->peer_is_open) Meet(*entry->end, *entry);
  if (entry->peer_has_closed) OnClose(peer, key);
  return entry->end;
}

void UcxEdges::Close(UcxEnd& end) {
  FailEnd(end, absl::AbortedError("the channel was closed"));
  UcxPeer* peer = peers_.Find(end.place().peer.value());
  const UcxEdgeMessage close{.type = UcxMessageType::kClose, .key = end.place().key.OfOtherEnd()};
  peers_.Send(*peer, close.Pack(peer->endpoint.token, peers_.self()));
  for (auto* list : {&listed_, &announcing_, &blocked_, &waiting_for_event_}) std::erase(*list, &end);
  std::erase_if(reading_, [&end](const UcxTransfer* transfer) { return &transfer->end() == &end; });
  entries_.at({end.place().peer, end.place().key}).end = nullptr;
  ends_[end.place().number] = nullptr;
}

UcxEdges::Entry* UcxEdges::EntryOf(const UcxPeer& peer, const UcxEdgeKey& key) {
  const EntryKey entry_key(peer.rank, key);
  const auto found = entries_.find(entry_key);
  if (found != entries_.end()) return &found->second;
  return entries_.size() < kMostEntries ? &entries_[entry_key] : nullptr;
}

UcxEnd* UcxEdges::EndAt(const UcxPeer& peer, uint32_t number) {
  if (number >= ends_.size() || ends_[number] == nullptr || ends_[number]->place().peer != peer.rank) return nullptr;
  return ends_[number].get();
}

void UcxEdges::Start(UcxTransfer& transfer) {
  UcxEnd& end = transfer.end();
  if (end.has_failed()) {
    transfer.Settle(UcxTransfer::State::kFailed);
    settled_ = true;
    return;
  }
  ++end.num_seen_;
  AskEvents(end);
  if (end.is_sender()) {
    MoveSends(end, /*most_pieces=*/1);  // the executor has other things to do than to copy
  } else {
    Announce(end);  // in front of data that goes the same way, or by Move
  }
}

void UcxEdges::OnOpen(UcxPeer& peer, const UcxEdgeMessage& message) {
  Entry* entry = EntryOf(peer, message.key);
  if (entry == nullptr || entry->peer_is_open || message.num_slots > kMostSlots) {
    spdlog::warn("worker rank {} opens a channel that cannot be", peer.rank.value());
    return;
  }
  entry->peer_is_open = true;
  entry->peer_number = message.end;
  entry->peer_slots = message.num_slots;
  entry->peer_guard_address = message.guard_address;
  entry->peer_guard_value = message.guard_value;
  if (entry->end != nullptr) Meet(*entry->end, *entry);
}

void UcxEdges::OnClose(UcxPeer& peer, const UcxEdgeKey& key) {
  Entry* entry = EntryOf(peer, key);
  if (entry == nullptr) return;
  entry->peer_has_closed = true;
  if (entry->end != nullptr) FailEnd(*entry->end, absl::UnavailableError("the peer closed the channel"));
}

void UcxEdges::OnMismatch(UcxPeer& peer, const UcxTextMessage& message) {
  if (UcxEnd* end = EndAt(peer, message.end); end != nullptr) FailEnd(*end, absl::DataLossError(message.text));
}

void UcxEdges::OnReady(UcxPeer& peer, const UcxMessage& message, size_t first_record, size_t num_records) {
  for (size_t i = 0; i < num_records; ++i) {
    const std::optional<UcxTransferRecord> record = UcxTransferHeader::Record(message.header, first_record + i);
    if (!record.has_value()) return;
    UcxEnd* end = EndAt(peer, record->end);
    if (end == nullptr || !end->is_sender() || end->has_failed()) continue;
    if (!end->peer_is_open_ || record->sequence != end->num_peer_ready_ ||
        end->num_peer_ready_ - end->num_moved_ >= end->peer_ready_.size()) {
      FailBoth(*end, BadMessageError(*end, "a receive out of order"));
      continue;
    }
    end->peer_ready_[end->num_peer_ready_++ % end->peer_ready_.size()] = {TransferTag{record->tag}, record->bytes};
    List(*end);
  }
}

void UcxEdges::OnData(UcxPeer& peer, const UcxMessage& message) {
  const std::optional<UcxTransferRecord> record = UcxTransferHeader::Record(message.header, 0);
  UcxTransfer* transfer = record.has_value() ? ReceiverOf(peer, *record) : nullptr;
  if (transfer == nullptr) return;
  if (record->offset > transfer->bytes_ || message.payload.size() > transfer->bytes_ - record->offset ||
      message.payload.size() > transfer->bytes_ - transfer->moved_bytes_) {
    FailBoth(transfer->end(), BadMessageError(transfer->end(), "more data than was asked for"));
    return;
  }
  if (!message.payload.empty()) {
    std::memcpy(transfer->buffer_ + record->offset, message.payload.data(), message.payload.size());
  }
  transfer->moved_bytes_ += message.payload.size();
  if (transfer->moved_bytes_ < transfer->bytes_) return;
  transfer->Complete();
  settled_ = true;
}

void UcxEdges::OnOffer(UcxPeer& peer, const UcxMessage& message) {
  const std::optional<UcxTransferRecord> record = UcxTransferHeader::Record(message.header, 0);
  UcxTransfer* transfer = record.has_value() ? ReceiverOf(peer, *record) : nullptr;
  if (transfer == nullptr) return;
  transfer->source_ = record->offset;
  reading_.push_back(transfer);
}

void UcxEdges::OnTaken(UcxPeer& peer, const UcxMessage& message) {
  const std::optional<UcxTransferRecord> record = UcxTransferHeader::Record(message.header, 0);
  UcxEnd* end = record.has_value() ? EndAt(peer, record->end) : nullptr;
  if (end == nullptr || !end->is_sender() || end->has_failed()) return;
  UcxTransfer& transfer = end->at(record->sequence);
  if (record->sequence >= end->num_moved_ || transfer.sequence_ != record->sequence || !transfer.is_posted()) {
    FailBoth(*end, BadMessageError(*end, "that it took what was not offered"));
    return;
  }
  transfer.Complete();
  settled_ = true;
}

UcxTransfer* UcxEdges::ReceiverOf(UcxPeer& peer, const UcxTransferRecord& record) {
  UcxEnd* end = EndAt(peer, record.end);
  if (end == nullptr || end->is_sender() || end->has_failed()) return nullptr;
  UcxTransfer& transfer = end->at(record.sequence);
  if (record.sequence >= end->num_moved_ || transfer.sequence_ != record.sequence || !transfer.is_posted() ||
      transfer.source_ != 0) {
    FailBoth(*end, BadMessageError(*end, "data that was not asked for"));
    return nullptr;
  }
  if (record.tag != transfer.tag_.bits || record.bytes != transfer.bytes_) {
    FailBoth(*end, BadMessageError(*end, "other data than was asked for"));
    return nullptr;
  }
  return &transfer;
}

bool UcxEdges::Move() {
  for (auto* list : {&waiting_for_event_, &blocked_}) {
    for (UcxEnd* end : *list) {
      end->waits_for_event_ = false;
      List(*end);
    }
    list->clear();
  }
  if (listed_.empty() && announcing_.empty() && reading_.empty()) return false;
  moving_.swap(listed_);
  for (UcxEnd* end : moving_) {
    end->is_listed_ = false;
    AskEvents(*end);
    if (!end->is_sender()) Announce(*end);
  }
  // Data first: it takes ready records along.
  bool moved = ReadOffered();
  for (UcxEnd* end : moving_) {
    if (end->is_sender()) moved = MoveSends(*end, kMostPiecesPerMove) || moved;
  }
  moving_.clear();
  return SendReady() || moved;
}

void UcxEdges::FailPeer(const UcxPeer& peer, const absl::Status& status) {
  for (const auto& end : ends_) {
    if (end != nullptr && end->place().peer == peer.rank) FailEnd(*end, status);
  }
}

void UcxEdges::FailAll(const absl::Status& status) {
  for (const auto& end : ends_) {
    if (end != nullptr) FailEnd(*end, status);
  }
}

void UcxEdges::Meet(UcxEnd& end, const Entry& entry) {
  end.peer_is_open_ = true;
  end.peer_number_ = entry.peer_number;
  end.peer_guard_address_ = entry.peer_guard_address;
  end.peer_guard_value_ = entry.peer_guard_value;
  if (end.is_sender()) end.peer_ready_.resize(entry.peer_slots);
  List(end);
}

void UcxEdges::List(UcxEnd& end) {
  if (std::exchange(end.is_listed_, true)) return;
  listed_.push_back(&end);
}

void UcxEdges::Announce(UcxEnd& end) {
  if (!end.peer_is_open_ || end.has_failed() || end.num_moved_ == end.num_cleared_) return;
  if (!std::exchange(end.is_announcing_, true)) announcing_.push_back(&end);
}

void UcxEdges::FailEnd(UcxEnd& end, const absl::Status& status) {
  end.Fail(status);
  settled_ = true;
}

void UcxEdges::FailBoth(UcxEnd& end, const absl::Status& status) {
  FailEnd(end, status);
  UcxPeer* peer = peers_.Find(end.place().peer.value());
  if (!end.peer_is_open_) return;
  const UcxTextMessage mismatch{.type = UcxMessageType::kMismatch,
                                .end = end.peer_number_,
                                .text = std::string(status.message().data(), status.message().size())};
  peers_.Send(*peer, mismatch.Pack(peer->endpoint.token, peers_.self()));
}

void UcxEdges::AskEvents(UcxEnd& end) {
  while (!end.has_failed() && end.num_cleared_ < end.num_seen_) {
    UcxTransfer& transfer = end.at(end.num_cleared_);
    if (transfer.ready_ != nullptr) {
      const absl::StatusOr<bool> complete = transfer.ready_->IsComplete();
      if (!complete.ok()) {
        FailBoth(end, complete.status());
        return;
      }
      if (!*complete) {
        if (!std::exchange(end.waits_for_event_, true)) waiting_for_event_.push_back(&end);
        return;
      }
      transfer.ready_ = nullptr;
    }
    ++end.num_cleared_;
  }
}

bool UcxEdges::MoveSends(UcxEnd& end, int most_pieces) {
  UcxPeer& peer = *peers_.Find(end.place().peer.value());
  bool moved = false;
  while (!end.has_failed() && end.num_moved_ < std::min(end.num_cleared_, end.num_peer_ready_)) {
    UcxTransfer& transfer = end.at(end.num_moved_);
    const PostedTransfer& wanted = end.peer_ready_[end.num_moved_ % end.peer_ready_.size()];
    if (transfer.what() != wanted) {
      FailBoth(end, MismatchError(end.place().name, transfer.what(), wanted));
      break;
    }
    if (most_pieces-- == 0) {
      List(end);
      break;
    }
    const ucs_status_t sent = SendPiece(end, transfer, peer);
    if (sent == UCS_ERR_NO_RESOURCE) {
      blocked_.push_back(&end);
      break;
    }
    if (sent != UCS_OK) {
      FailEnd(end, PeerGoneError(peer.rank, ucs_status_string(sent)));
      break;
    }
    moved = true;
  }
  return moved;
}

ucs_status_t UcxEdges::SendPiece(UcxEnd& end, UcxTransfer& transfer, UcxPeer& peer) {
  if (!peer.letters.empty()) return UCS_ERR_NO_RESOURCE;  // those go first
  UcxTransferRecord record{.end = end.peer_number_,
                           .sequence = transfer.sequence_,
                           .tag = transfer.tag_.bits,
                           .bytes = transfer.bytes_,
                           .offset = transfer.moved_bytes_};
  if (transfer.bytes_ >= sizes_.smallest_offer) {
    record.offset = reinterpret_cast<uint64_t>(transfer.buffer_);
    const ucs_status_t sent = SendRecord(UcxMessageType::kOffer, peer, record, {});
    if (sent == UCS_OK) ++end.num_moved_;
    return sent;
  }
  const size_t size = std::min(sizes_.largest_payload, transfer.bytes_ - record.offset);
  const ucs_status_t sent = SendRecord(UcxMessageType::kData, peer, record, {transfer.buffer_ + record.offset, size});
  if (sent != UCS_OK) return sent;
  transfer.moved_bytes_ += size;
  if (transfer.moved_bytes_ == transfer.bytes_) {
    ++end.num_moved_;
    transfer.Complete();
    settled_ = true;
  }
  return UCS_OK;
}

ucs_status_t UcxEdges::SendRecord(UcxMessageType type, UcxPeer& peer, const UcxTransferRecord& record,
                                  std::span<const std::byte> payload) {
  UcxTransferHeader header(type, peer.endpoint.token, peers_.self());
  header.Add(record);
  const uint16_t num_ready = AddReady(peer.rank, header);
  header.SetNumReady(num_ready);
  const ucs_status_t sent = worker_.TrySend(peer.connection, header.bytes(), payload);
  if (sent == UCS_OK) TakeReady(peer.rank, num_ready);
  return sent;
}

bool UcxEdges::ReadOffered() {
  for (size_t next = 0; next < reading_.size();) {
    const Reading reading = ReadPiece(*reading_[next]);
    if (reading == Reading::kEnded) reading_.erase(reading_.begin() + static_cast<std::ptrdiff_t>(next));
    if (reading != Reading::kWaits) return true;
    ++next;
  }
  return false;
}

UcxEdges::Reading UcxEdges::ReadPiece(UcxTransfer& transfer) {
  UcxEnd& end = transfer.end();
  if (end.has_failed()) return Reading::kEnded;
  UcxPeer& peer = *peers_.Find(end.place().peer.value());
  const size_t size = std::min(kLargestRead, transfer.bytes_ - transfer.moved_bytes_);
  const absl::Status read =
      peer.memory.Read(transfer.source_ + transfer.moved_bytes_, {transfer.buffer_ + transfer.moved_bytes_, size});
  if (read.ok()) {
    transfer.moved_bytes_ += size;
    return transfer.moved_bytes_ < transfer.bytes_ ? Reading::kGoesOn : FinishReading(transfer, peer);
  }
  if (peer.memory.IsGuarded(end.peer_guard_address_, end.peer_guard_value_)) {
    FailBoth(end, absl::UnavailableError(absl::StrCat(end.place().name, ": cannot read the memory of worker rank ",
                                                      peer.rank.value(), ": ", read.message())));
  }
  return Reading::kEnded;  // as in FinishReading
}

UcxEdges::Reading UcxEdges::FinishReading(UcxTransfer& transfer, UcxPeer& peer) {
  UcxEnd& end = transfer.end();
  // The sender has given up, or is gone. Its message, or its life line, says why, and ends the transfer.
  if (!peer.memory.IsGuarded(end.peer_guard_address_, end.peer_guard_value_)) return Reading::kEnded;
  ucs_status_t sent = UCS_ERR_NO_RESOURCE;
  if (peer.letters.empty()) {
    sent = SendRecord(
        UcxMessageType::kTaken, peer,
        {.end = end.peer_number_, .sequence = transfer.sequence_, .tag = transfer.tag_.bits, .bytes = transfer.bytes_},
        {});
  }
  if (sent == UCS_ERR_NO_RESOURCE) return Reading::kWaits;
  if (sent != UCS_OK) {
    FailEnd(end, PeerGoneError(peer.rank, ucs_status_string(sent)));
    return Reading::kEnded;
  }
  transfer.Complete();
  settled_ = true;
  return Reading::kEnded;
}

bool UcxEdges::SendReady() {
  bool sent_any = false;
  // A round serves one peer; one that does not take more is met again in the next Move.
  for (size_t next = 0; next < announcing_.size();) {
    UcxPeer& peer = *peers_.Find(announcing_[next]->place().peer.value());
    UcxTransferHeader header(UcxMessageType::kReady, peer.endpoint.token, peers_.self());
    const uint16_t num_ready = AddReady(peer.rank, header);
    header.SetNumReady(num_ready);
    ucs_status_t sent = peer.letters.empty() ? UCS_OK : UCS_ERR_NO_RESOURCE;
    if (sent == UCS_OK && num_ready > 0) sent = worker_.TrySend(peer.connection, header.bytes(), {});
    if (sent == UCS_ERR_NO_RESOURCE) {
      ++next;
      continue;
    }
    sent_any = sent_any || num_ready > 0;
    TakeReady(peer.rank, num_ready);
  }
  return sent_any;
}

uint16_t UcxEdges::AddReady(WorkerRank peer, UcxTransferHeader& header) const {
  uint16_t num_ready = 0;
  for (UcxEnd* end : announcing_) {
    if (end->place().peer != peer || end->has_failed()) continue;
    for (uint64_t next = end->num_moved_; next < end->num_cleared_ && num_ready < kMostReadyRecords; ++next) {
      const UcxTransfer& transfer = end->at(next);
      header.Add({.end = end->peer_number_,
                  .sequence = next,
                  .tag = transfer.tag_.bits,
                  .bytes = transfer.bytes_,
                  .offset = 0});
      ++num_ready;
    }
  }
  return num_ready;
}

void UcxEdges::TakeReady(WorkerRank peer, uint16_t num_ready) {
  std::erase_if(announcing_, [&](UcxEnd* end) {
    if (end->place().peer != peer) return false;
    if (!end->has_failed()) {
      const uint64_t taken = std::min<uint64_t>(num_ready, end->num_cleared_ - end->num_moved_);
      end->num_moved_ += taken;
      num_ready = static_cast<uint16_t>(num_ready - taken);
      if (end->num_moved_ < end->num_cleared_) return false;
    }
    end->is_announcing_ = false;
    return true;
  });
}

}  // namespace stagecoach
