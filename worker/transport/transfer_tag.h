#ifndef STAGECOACH_WORKER_TRANSPORT_TRANSFER_TAG_H_
#define STAGECOACH_WORKER_TRANSPORT_TRANSFER_TAG_H_

#include <cstdint>
#include <string>

#include "common/ids.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// What a transfer is: kind 4 | stage 12 | micro-batch 16 | step 32 bits, from the high end. Both ends compute it and
// the receiver checks it; the epoch is the channel's. `stage` is the sender's.
struct TransferTag {
  uint64_t bits = 0;
  bool operator==(const TransferTag&) const = default;

  static TransferTag Of(v1::ChannelKind kind, StageIndex stage, MicroBatchIndex micro_batch, Step step) {
    return {static_cast<uint64_t>(kind) << 60 | uint64_t{stage.value() & 0xfffu} << 48 |
            uint64_t{micro_batch.value() & 0xffffu} << 32 | (step.value() & 0xffffffffu)};
  }
};

// "activation of stage 1, micro-batch 3, step 7".
std::string TagText(TransferTag tag);

// "activation", "gradient", "tie", "state", "skip", "skip_gradient".
const char* ChannelKindText(v1::ChannelKind kind);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_TRANSPORT_TRANSFER_TAG_H_
