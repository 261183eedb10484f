#ifndef STAGECOACH_WORKER_TRANSPORT_TRANSPORT_ERRORS_H_
#define STAGECOACH_WORKER_TRANSPORT_TRANSPORT_ERRORS_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "stagecoach/v1/program.pb.h"
#include "worker/transport/transfer_tag.h"
#include "worker/transport/transport.h"

namespace stagecoach {

// What every transport says of the same thing, in the same words.

// "job j, epoch 3, incarnation 101".
std::string FenceText(const TransportFence& fence);
// "activation channel from stage 0 (worker rank 0) to stage 1 (worker rank 1)".
std::string ChannelText(const v1::ChannelSpec& spec);

absl::Status PeerGoneError(WorkerRank rank, absl::string_view why);
// A peer that is there, but is not the one that the list of peers names.
absl::Status WrongPeerError(WorkerRank rank, const TransportFence& found, WorkerRank found_rank,
                            const TransportFence& expected);
absl::Status MissingPeersError(WorkerRank self, absl::string_view missing_ranks, absl::Duration timeout);

// What an end posted.
struct PostedTransfer {
  TransferTag tag;
  size_t bytes = 0;
  bool operator==(const PostedTransfer&) const = default;
};
absl::Status MismatchError(absl::string_view channel, const PostedTransfer& sent, const PostedTransfer& received);
absl::Status NotPostedError(absl::string_view channel, TransferTag tag, absl::Duration timeout);
absl::Status TooManyPostsError(absl::string_view channel, TransferTag tag, size_t num_slots);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_TRANSPORT_TRANSPORT_ERRORS_H_
