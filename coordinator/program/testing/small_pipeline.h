#ifndef STAGECOACH_COORDINATOR_PROGRAM_TESTING_SMALL_PIPELINE_H_
#define STAGECOACH_COORDINATOR_PROGRAM_TESTING_SMALL_PIPELINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/program/verifier.h"
#include "stagecoach/v1/plan.pb.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach::testing {

// A graph with the shape of a GPT (embedding, blocks, norm, head) and a few hundred bytes a layer. Every layer has
// other sizes, so that a slot of the wrong stage or lifetime is seen.
v1::ModelGraph SmallGraph(uint32_t num_blocks, bool tied);

struct SmallPipelineOptions {
  uint32_t num_stages = 1;
  uint32_t num_micro_batches = 1;
  bool tied = true;
  uint32_t credit_window = 2;
};

// One block on each stage, lowered; memory of the plan filled in.
struct SmallPipeline {
  v1::ModelGraph graph;
  v1::Plan plan;
  v1::ComputeTable table;
  std::vector<v1::StageProgram> programs;

  absl::Status Verified(SendSemantics sends = SendSemantics::kRendezvous) const;
};
SmallPipeline MakeSmallPipeline(const std::string& schedule, const SmallPipelineOptions& options);

}  // namespace stagecoach::testing

#endif  // STAGECOACH_COORDINATOR_PROGRAM_TESTING_SMALL_PIPELINE_H_
