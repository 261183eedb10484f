#ifndef STAGECOACH_COORDINATOR_PROGRAM_TESTING_SYMBOLIC_RUN_H_
#define STAGECOACH_COORDINATOR_PROGRAM_TESTING_SYMBOLIC_RUN_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "stagecoach/v1/program.pb.h"

namespace stagecoach::testing {

// What a run of programs computed, on hashes instead of tensors: two runs with equal outcomes did the same arithmetic
// on the same operands in the same order.
struct SymbolicOutcome {
  std::string problem;                                // empty: the run ended
  std::vector<std::pair<uint32_t, uint64_t>> losses;  // (micro-batch, value), sorted
  std::vector<std::pair<uint32_t, uint64_t>> norms;   // (stage, value), sorted
  bool operator==(const SymbolicOutcome&) const = default;
};

// Where a transport and a machine are free to choose.
struct SymbolicRunOptions {
  // Workers take turns at random, a few instructions each, and data moves at random moments; the others are not read.
  std::optional<uint32_t> seed = std::nullopt;
  bool copies_early = true;        // data moves as soon as both ends are posted, or only when somebody waits for it
  bool first_worker_last = false;  // which worker runs as far as it can before the others
};

// An executor and a transport of rendezvous for tests: what program.proto says, on an arena of real offsets, knowing
// nothing of the verifier. An instruction that no executor could run ends the run with a problem.
SymbolicOutcome RunSymbolically(std::span<const v1::StageProgram> programs, const SymbolicRunOptions& options);

// With each choice of the options, and with some seeds.
std::vector<SymbolicOutcome> RunInManyOrders(std::span<const v1::StageProgram> programs);

}  // namespace stagecoach::testing

#endif  // STAGECOACH_COORDINATOR_PROGRAM_TESTING_SYMBOLIC_RUN_H_
