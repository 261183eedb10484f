#ifndef STAGECOACH_TESTS_SIMULATION_PLANTED_BUG_H_
#define STAGECOACH_TESTS_SIMULATION_PLANTED_BUG_H_

#include <array>
#include <utility>

#include "absl/strings/string_view.h"

namespace stagecoach::simulation {

// A mistake that the simulation makes on purpose, around the product's code, to show that it would be found.
enum class PlantedBug {
  kNone,
  kDropPreparedGradients,  // a worker forgets, on an abort, what it has prepared
  kApplyTwice,             // a commit that comes again is applied again
  kAcceptOldEpoch,         // both ends take what is of an older epoch for what is of the current one
  kLoseCommitRecord,       // the journal answers that it has stored a commit, and has not
  kBlameWaitingWorker,     // heartbeats say "computing" of workers that wait
};

inline constexpr std::array<std::pair<PlantedBug, absl::string_view>, 6> kPlantedBugs = {{
    {PlantedBug::kNone, "none"},
    {PlantedBug::kDropPreparedGradients, "drop_prepared_gradients"},
    {PlantedBug::kApplyTwice, "apply_twice"},
    {PlantedBug::kAcceptOldEpoch, "accept_old_epoch"},
    {PlantedBug::kLoseCommitRecord, "lose_commit_record"},
    {PlantedBug::kBlameWaitingWorker, "blame_waiting_worker"},
}};

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_PLANTED_BUG_H_
