#ifndef STAGECOACH_COORDINATOR_PROGRAM_VERIFIER_H_
#define STAGECOACH_COORDINATOR_PROGRAM_VERIFIER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "stagecoach/v1/plan.pb.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// When a send is complete.
enum class SendSemantics {
  kRendezvous,  // once its receive is posted; its worker goes on meanwhile, and waits where it needs the buffer again
  kBuffered,    // at once
  kBlocking,    // once its receive is posted, and its worker does not go on before: programs of other systems
};

struct VerifierInput {
  std::span<const v1::StageProgram> programs;  // by worker rank
  const v1::ModelGraph& graph;
  const v1::Plan& plan;
  std::span<const uint64_t> memory_limit_bytes;  // by worker rank; empty: none
  SendSemantics sends = SendSemantics::kRendezvous;
};

// The proof law. Shows, for the programs as they stand and not for how they were made, that
// - layers are covered once, in order; every (stage, micro-batch) has exactly one F, one I and one W (in a forward-only
//   program F alone), each after what it needs, on the worker that holds the stage; every loss is read once;
// - of frozen layers all that is left out, and nothing else: a stage has a W when a layer in it is trained, an I when
//   one in it or below it is, and a gradient goes down a cut when one below the cut is;
// - there is a skip edge between two stages exactly where connections lead, with those and their sizes, one back where
//   their gradients are wanted, and every F and I reads and writes all of its own, once;
// - a stage that recomputes layers, which are blocks of its own, has one R of every micro-batch between its F and its
//   I, and no other stage has one;
// - W runs in micro-batch order on every stage; ties are reduced after the last W of both uses, norms after everything;
// - each channel is first in first out; sender and receiver agree in number, order and size; no slot, and no byte of
// the
//   arena, is written while it is in use or under way;
// - the programs end, run together under `sends` with the posts that the channels' slots allow;
// - no worker ever holds more bytes than its plan says, nor the plan more than the limit.
// A forward-only program is held against the same plan: it runs in the arena of the training program.
// INVALID_ARGUMENT with the shortest counter-example: the instruction, or the cycle of waits. Pure.
absl::Status Verify(const VerifierInput& input);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_VERIFIER_H_
