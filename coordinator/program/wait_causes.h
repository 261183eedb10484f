#ifndef STAGECOACH_COORDINATOR_PROGRAM_WAIT_CAUSES_H_
#define STAGECOACH_COORDINATOR_PROGRAM_WAIT_CAUSES_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "coordinator/program/simulator.h"

namespace stagecoach {

// An action of a timeline: workers[worker][index].
struct ActionPlace {
  size_t worker = 0;
  size_t index = 0;
  bool operator==(const ActionPlace&) const = default;
};

enum class WaitCause {
  kStart,  // nothing: it is the first of its worker and its input is there from the beginning
  kOrder,  // its worker was busy with the action before it
  kInput,  // its input, the last that came, is of another worker, and came after its own worker was free
};

// Why an action did not start earlier.
struct StartCause {
  WaitCause cause = WaitCause::kStart;
  std::optional<ActionPlace> after = std::nullopt;  // the action that it started after; nothing with kStart
  // With kInput: from that action's end to the input's arrival, with the time for which the edge was occupied.
  double hop_seconds = 0;
};

// Of every action: [worker][index]. `timeline` is one that Simulate has made. When both the worker and the input were
// ready at the same time the cause is kOrder. Pure.
std::vector<std::vector<StartCause>> StartCauses(const Timeline& timeline);

// A stretch of time on the chain of causes.
struct ChainPiece {
  ActionPlace action;  // the one that runs then, or whose result is under way
  bool is_hop = false;
  double start = 0;
  double end = 0;
};
// What the start of `action` waited for from `from_seconds` on: pieces that touch one another and end at its start, the
// latest first. Follows the causes back; O(pieces).
std::vector<ChainPiece> ChainBefore(const Timeline& timeline, const std::vector<std::vector<StartCause>>& causes,
                                    ActionPlace action, double from_seconds);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_WAIT_CAUSES_H_
