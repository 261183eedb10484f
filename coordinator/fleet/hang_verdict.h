#ifndef STAGECOACH_COORDINATOR_FLEET_HANG_VERDICT_H_
#define STAGECOACH_COORDINATOR_FLEET_HANG_VERDICT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/ids.h"
#include "stagecoach/v1/program.pb.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

// What is known of one member of an epoch while a run of the program is in flight. Times are the coordinator's clock.
struct MemberActivity {
  std::optional<v1::RunState> run;  // of its newest heartbeat; nullopt: it runs no program
  absl::Duration unmoved_since;     // since when (run, instruction, wait), or that there is no run, is the same
  absl::Duration heard_at;          // when the newest heartbeat came
  // Since when its part of the run is done, and it waits for the verdict; nullopt: it is not.
  std::optional<absl::Duration> answered_at;
  const v1::StageProgram* program = nullptr;  // that was ordered; not null
};

struct HangInput {
  std::vector<MemberActivity> members;  // by worker rank
  absl::Duration ordered_at;            // when the run in flight was ordered: nobody is stuck since before that
  double step_seconds = 0;              // of the plan
  absl::Duration silent_after;          // what a member last said counts for so long
  absl::Duration now;
};

struct HangBlame {
  WorkerRank rank;
  uint64_t step = 0;    // that it runs; 0: none
  std::string action;   // "2F0"; empty: none, or not known
  std::string message;  // what it does, for how long, and how long it may; without the worker's name
};

// What a member last said counts for so long: a few of its heartbeats.
absl::Duration SilentAfter(absl::Duration heartbeat_interval);

// How long a member may stay at one instruction: four times what is usual for that, or, as long as that is not known,
// twenty times the whole step as planned; at least two seconds.
absl::Duration HangDeadline(const MemberActivity& member, double step_seconds);

// Who holds up the others: nobody (empty), or the roots of the wait graph, those that are stuck for longest first. A
// member is stuck when it was last heard to be where it was a deadline before. To blame are
// - who is stuck and waits for nobody: it computes, or has not begun;
// - who is stuck and silent, unless, by what it last said, it waits for another of these;
// - of a transfer that both ends have posted and that does not end, the receiver, or the end that still runs;
// - when members wait for each other in a circle, the receiver that has waited longest in it.
// Who waits for a member that is stuck is not, nor who waits for one that moves. When nobody is heard nobody is blamed.
// Pure.
std::vector<HangBlame> FindHang(const HangInput& input);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_FLEET_HANG_VERDICT_H_
