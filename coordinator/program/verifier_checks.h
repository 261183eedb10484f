#ifndef STAGECOACH_COORDINATOR_PROGRAM_VERIFIER_CHECKS_H_
#define STAGECOACH_COORDINATOR_PROGRAM_VERIFIER_CHECKS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/action_text.h"
#include "common/frozen_layers.h"
#include "coordinator/program/tied_tensor.h"
#include "coordinator/program/verifier.h"

namespace stagecoach {

// The parts of Verify, in the order in which they run: each relies on what the ones before have shown. They read
// programs, graph and plan, and nothing of the lowering.

// Equal for the two ends of a channel: kind, stage that sends, stage that receives.
using ChannelKey = std::tuple<int, uint32_t, uint32_t>;
inline ChannelKey KeyOf(const v1::ChannelSpec& channel) {
  return {static_cast<int>(channel.kind()), channel.from_stage(), channel.to_stage()};
}

// Skip edges that F or I of a stage reads and writes, ascending by the stage at the other end.
struct SkipsOfAction {
  std::vector<ChannelKey> recv, send;
};

// What the pipeline is, from graph and plan alone.
struct PipelineShape {
  uint32_t num_stages = 0;
  uint32_t num_micro_batches = 0;
  bool forward_only = false;
  std::optional<TiedTensor> tie = std::nullopt;  // that is trained
  uint32_t tie_lower_stage = 0;                  // with `tie`: of the owner, and of the later use
  uint32_t tie_upper_stage = 0;
  std::vector<bool> recomputes = {};  // [num_stages] the stage runs the forward of some of its layers again, as R
  std::vector<StageBackward> backward = {};  // [num_stages] when it trains: what frozen layers leave of it
  std::map<ChannelKey, v1::ChannelSpec> skip_channels = {};            // that there must be; without num_slots
  std::vector<SkipsOfAction> forward_skips = {}, backward_skips = {};  // [num_stages]

  bool HasInput(uint32_t stage) const { return !forward_only && backward[stage].input; }
  bool HasWeight(uint32_t stage) const { return !forward_only && backward[stage].weight; }
  bool SendsGradient(uint32_t stage) const { return !forward_only && backward[stage].sends_gradient; }
  // For W. An evaluation's F of a stage that recomputes makes the front of it too.
  bool LeavesPending(uint32_t stage) const { return backward[stage].weight; }
  bool IsTied(uint32_t stage) const {
    return tie.has_value() && !forward_only && (stage == tie_lower_stage || stage == tie_upper_stage);
  }
  bool SendsTie(uint32_t stage) const { return IsTied(stage) && tie_lower_stage != tie_upper_stage; }
};

uint32_t StageOfLayer(const v1::Plan& plan, uint32_t layer);
// Fills what the shape says of skip edges, from the rest of it. INVALID_ARGUMENT: their tensors are of no size that a
// channel can have.
absl::Status AddSkipChannels(const VerifierInput& input, PipelineShape& shape);
// Layers are covered once, in order; programs are those of the plan's stages and workers.
absl::StatusOr<PipelineShape> VerifyPlacement(const VerifierInput& input);
// The channels are those that the cuts, the skip connections and the tie need, alike at both ends and large enough.
absl::Status VerifyChannelSpecs(const VerifierInput& input, const PipelineShape& shape);
// Slots are aligned, inside the arena and large enough.
absl::Status VerifySlots(const VerifierInput& input, const PipelineShape& shape);
// What a plan says about memory is what graph and programs need, and not more than the limit.
absl::Status VerifyMemory(const VerifierInput& input);

// Micro-batches of the posts of one end of each of a program's channels, in order.
using Posts = std::vector<std::vector<uint32_t>>;
// One worker's program on its own: every action once and after what it needs, slots and bytes never in use twice.
absl::StatusOr<Posts> VerifyOrder(const v1::StageProgram& program, const PipelineShape& shape);

// Both ends of every channel post the same micro-batches in the same order.
absl::Status VerifyTransfers(const VerifierInput& input, const std::vector<Posts>& posts_of_worker);
// Run together, the programs end.
absl::Status VerifyTermination(const VerifierInput& input);

std::string ChannelName(const ChannelKey& key);  // "activation channel 0->1"
inline std::string ChannelName(const v1::ChannelSpec& channel) { return ChannelName(KeyOf(channel)); }
// Between two stages of one worker: a buffer that one writes and the other reads, without a transfer.
inline bool IsWithinWorker(const v1::ChannelSpec& channel) {
  return channel.from_worker_rank() == channel.to_worker_rank();
}

template <typename... Parts>
absl::Status Refuse(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}
// With the place in front: "worker 1, instruction 12 (1F0): ".
template <typename... Parts>
absl::Status RefuseAt(const v1::StageProgram& program, int index, const Parts&... parts) {
  return Refuse("worker ", program.worker_rank(), ", instruction ", index, " (",
                ActionText(program.instructions(index).action()), "): ", parts...);
}

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_VERIFIER_CHECKS_H_
