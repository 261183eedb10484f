#ifndef STAGECOACH_COORDINATOR_PROGRAM_LOWERING_H_
#define STAGECOACH_COORDINATOR_PROGRAM_LOWERING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/action_text.h"
#include "stagecoach/v1/plan.pb.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// Stages x micro-batches of the largest table that is lowered. Each becomes up to ten instructions, which go to the
// workers in one message: twice as many kept coordinator and workers busy for longer than a lease, epoch after epoch.
inline constexpr uint64_t kMaxLoweredForwards = 1 << 18;

struct LoweringOptions {
  // Posts of one end of a channel that may be under way at a time: at most so many, but on skip edges. Unlimited, they
  // are as many as the sender is ahead of the receiver, and nothing ever waits for a post.
  uint32_t credit_window = UINT32_MAX;
};

// Adds to a compute-only table what makes it run: loads, receives posted just before the simulator says that the sender
// issues (of the plan's times, or all stages alike), sends, losses, ties, norms; numbers every channel; assigns slots
// by lifetime and lays them out in one arena per worker, where slots that are never in use at once share bytes. Stages
// of one worker hand over through a channel of that worker to itself, without posts. Where skip connections of the
// graph lead from one stage to another, the two have a skip edge besides: no credit window holds it, since the stages
// between may wait for its sender. One program per worker. `plan` needs its stages' workers and layers only. Where a
// credit window makes receives so late that the programs would not end, they are posted as early as it allows. Pure.
// INVALID_ARGUMENT: the table is not of this plan, or cannot run, or the graph's skip connections are not possible.
absl::StatusOr<std::vector<v1::StageProgram>> Lower(const v1::ComputeTable& table, const v1::ModelGraph& graph,
                                                    const v1::Plan& plan, const LoweringOptions& options);

// Canonical, for golden files and people: a line for the program, each channel, each stage and each instruction.
std::string ProgramText(const v1::StageProgram& program);

// The most receives from other workers that a program has posted and not yet read, at any one instruction: so many
// buffers they need, whatever the channel.
uint32_t NumReceiveSlots(const v1::StageProgram& program);

// XXH3-128 of all fields but content_hash: 16 bytes.
std::string ContentHash(const v1::StageProgram& program);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_LOWERING_H_
