#include "worker/transport/transport_errors.h"

#include "absl/strings/str_cat.h"

namespace stagecoach {

std::string FenceText(const TransportFence& fence) {
  return absl::StrCat("job ", fence.job.value(), ", epoch ", fence.epoch.value(), ", incarnation ",
                      fence.incarnation.value());
}

std::string ChannelText(const v1::ChannelSpec& spec) {
  return absl::StrCat(ChannelKindText(spec.kind()), " channel from stage ", spec.from_stage(), " (worker rank ",
                      spec.from_worker_rank(), ") to stage ", spec.to_stage(), " (worker rank ", spec.to_worker_rank(),
                      ")");
}

absl::Status PeerGoneError(WorkerRank rank, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("worker rank ", rank.value(), " is gone: ", why));
}

absl::Status WrongPeerError(WorkerRank rank, const TransportFence& found, WorkerRank found_rank,
                            const TransportFence& expected) {
  return absl::AbortedError(absl::StrCat("worker rank ", rank.value(), " is not the expected peer: it is ",
                                         FenceText(found), ", rank ", found_rank.value(), "; expected ",
                                         FenceText(expected)));
}

absl::Status MissingPeersError(WorkerRank self, absl::string_view missing_ranks, absl::Duration timeout) {
  return absl::DeadlineExceededError(absl::StrCat("worker rank ", self.value(), ": no connection from ranks ",
                                                  missing_ranks, " within ", absl::FormatDuration(timeout)));
}

absl::Status MismatchError(absl::string_view channel, const PostedTransfer& sent, const PostedTransfer& received) {
  return absl::DataLossError(absl::StrCat(channel, ": sent ", TagText(sent.tag), " (", sent.bytes,
                                          " bytes), but the receiver posted ", TagText(received.tag), " (",
                                          received.bytes, " bytes); the programs of the two workers do not agree"));
}

absl::Status NotPostedError(absl::string_view channel, TransferTag tag, absl::Duration timeout) {
  return absl::DeadlineExceededError(
      absl::StrCat(channel, ": the other end did not post ", TagText(tag), " within ", absl::FormatDuration(timeout)));
}

absl::Status TooManyPostsError(absl::string_view channel, TransferTag tag, size_t num_slots) {
  return absl::InternalError(absl::StrCat(channel, ": ", TagText(tag), " posted while all ", num_slots,
                                          " slots are outstanding; the program posts more than the channel has"));
}

}  // namespace stagecoach
