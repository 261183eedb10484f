#ifndef STAGECOACH_TESTS_SIMULATION_COVERAGE_H_
#define STAGECOACH_TESTS_SIMULATION_COVERAGE_H_

#include <cstdint>
#include <map>
#include <string>

#include "coordinator/jobs/job_record.h"

namespace stagecoach::simulation {

// How often something happened that a simulation must be known to reach.
using Coverage = std::map<std::string, uint64_t>;

inline const char* PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kNone:
      return "none";
    case Phase::kReattaching:
      return "reattaching";
    case Phase::kReplanning:
      return "replanning";
    case Phase::kProfiling:
      return "profiling";
    case Phase::kPlanning:
      return "planning";
    case Phase::kPreparingStages:
      return "preparing stages";
    case Phase::kConnectingPeers:
      return "connecting peers";
    case Phase::kTraining:
      return "training";
    case Phase::kEvaluating:
      return "evaluating";
    case Phase::kPaused:
      return "paused";
    case Phase::kFinishing:
      return "finishing";
    case Phase::kMakingDirectory:
      return "making a directory";
    case Phase::kWritingShards:
      return "writing shards";
    case Phase::kWritingManifest:
      return "writing the manifest";
    case Phase::kAborting:
      return "aborting";
  }
  return "unknown";
}

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_COVERAGE_H_
