#ifndef STAGECOACH_WORKER_TRANSPORT_UCX_UCX_EDGES_H_
#define STAGECOACH_WORKER_TRANSPORT_UCX_UCX_EDGES_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stagecoach/v1/program.pb.h"
#include "worker/transport/ucx/ucx_peers.h"
#include "worker/transport/ucx/ucx_transfer.h"
#include "worker/transport/ucx/ucx_worker.h"

namespace stagecoach {

class UcxDriver;

// The ends, here, of all edges to other workers, and the messages that move their transfers: see UcxMessageType. For
// whoever has the turn.
class UcxEdges {
 public:
  struct Sizes {
    size_t largest_payload = 0;
    size_t smallest_offer = 0;
  };

  UcxEdges(UcxWorker& worker, UcxPeers& peers, const Sizes& sizes);

  // See Transport::Open. `peer` has said hello. The end posts to `driver`.
  absl::StatusOr<std::shared_ptr<UcxEnd>> Open(const v1::ChannelSpec& spec, UcxPeer& peer, bool is_sender,
                                               UcxDriver& driver);
  // Fails both ends, and forgets the one here.
  void Close(UcxEnd& end);

  void Start(UcxTransfer& transfer);
  void OnOpen(UcxPeer& peer, const UcxEdgeMessage& message);
  void OnClose(UcxPeer& peer, const UcxEdgeKey& key);
  void OnMismatch(UcxPeer& peer, const UcxTextMessage& message);
  void OnReady(UcxPeer& peer, const UcxMessage& message, size_t first_record, size_t num_records);
  void OnData(UcxPeer& peer, const UcxMessage& message);
  void OnOffer(UcxPeer& peer, const UcxMessage& message);
  void OnTaken(UcxPeer& peer, const UcxMessage& message);

  // Sends what can be sent, but not all at once: calls of UcxWorker::Progress come between. Not called from within it.
  // Whether anything was sent or read.
  bool Move();
  // Whether something waits until UCX takes it.
  bool is_blocked() const { return !blocked_.empty() || !announcing_.empty() || !reading_.empty(); }
  // Whether an event has to be asked again: nobody says when it is complete.
  bool waits_for_events() const { return !waiting_for_event_.empty(); }

  void FailPeer(const UcxPeer& peer, const absl::Status& status);
  void FailAll(const absl::Status& status);
  bool TakeSettled() { return std::exchange(settled_, false); }

 private:
  // What the peer has said of an edge that is not open here yet; then, that it is.
  struct Entry {
    std::shared_ptr<UcxEnd> end;
    bool was_opened = false;
    bool peer_is_open = false;
    bool peer_has_closed = false;
    uint32_t peer_number = 0;
    uint32_t peer_slots = 0;
    uint64_t peer_guard_address = 0, peer_guard_value = 0;
  };
  using EntryKey = std::pair<WorkerRank, UcxEdgeKey>;

  Entry* EntryOf(const UcxPeer& peer, const UcxEdgeKey& key);
  UcxEnd* EndAt(const UcxPeer& peer, uint32_t number);
  void Meet(UcxEnd& end, const Entry& entry);
  void List(UcxEnd& end);
  void Announce(UcxEnd& end);
  void FailEnd(UcxEnd& end, const absl::Status& status);
  void FailBoth(UcxEnd& end, const absl::Status& status);
  void AskEvents(UcxEnd& end);
  bool MoveSends(UcxEnd& end, int most_pieces);
  ucs_status_t SendPiece(UcxEnd& end, UcxTransfer& transfer, UcxPeer& peer);
  // A message whose first record is `record`, with as many ready records as there are.
  ucs_status_t SendRecord(UcxMessageType type, UcxPeer& peer, const UcxTransferRecord& record,
                          std::span<const std::byte> payload);
  bool ReadOffered();
  enum class Reading { kGoesOn, kWaits, kEnded };
  Reading ReadPiece(UcxTransfer& transfer);
  Reading FinishReading(UcxTransfer& transfer, UcxPeer& peer);
  bool SendReady();
  // Ready records for `peer` into `header`; once they have left, the same are taken off the list.
  uint16_t AddReady(WorkerRank peer, UcxTransferHeader& header) const;
  void TakeReady(WorkerRank peer, uint16_t num_ready);
  UcxTransfer* ReceiverOf(UcxPeer& peer, const UcxTransferRecord& record);

  UcxWorker& worker_;
  UcxPeers& peers_;
  const Sizes sizes_;
  std::map<EntryKey, Entry> entries_;
  std::vector<std::shared_ptr<UcxEnd>> ends_;  // by number; null: forgotten
  // Lists of ends, each with room for all: nothing is allocated per transfer.
  std::vector<UcxEnd*> listed_;             // may have something to send
  std::vector<UcxEnd*> moving_;             // those that Move is at
  std::vector<UcxEnd*> announcing_;         // receivers with ready records to send
  std::vector<UcxEnd*> blocked_;            // senders, until UCX takes more
  std::vector<UcxEnd*> waiting_for_event_;  // whose next transfer's event is not complete
  std::vector<UcxTransfer*> reading_;       // receives that were offered and not finished
  bool settled_ = false;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_TRANSPORT_UCX_UCX_EDGES_H_
