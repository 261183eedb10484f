#ifndef STAGECOACH_COORDINATOR_PROGRAM_TESTING_SMALL_PIPELINE_H_
#define STAGECOACH_COORDINATOR_PROGRAM_TESTING_SMALL_PIPELINE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/program/lowering.h"
#include "coordinator/program/verifier.h"
#include "stagecoach/v1/plan.pb.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach::testing {

// A graph with the shape of a GPT (embedding, blocks, norm, head) and a few hundred bytes a layer. Every layer has
// other sizes, so that a slot of the wrong stage or lifetime is seen.
v1::ModelGraph SmallGraph(uint32_t num_blocks, bool tied);
// Marks the layers, and leaves of all costs what they leave.
void Freeze(const std::vector<uint32_t>& layers, v1::ModelGraph& graph);
// From the first layer of each to the second.
void Connect(const std::vector<std::pair<uint32_t, uint32_t>>& layers, v1::ModelGraph& graph);

struct SmallPipelineOptions {
  uint32_t num_stages = 1;  // of all workers
  uint32_t num_chunks = 1;  // of each worker
  uint32_t num_micro_batches = 1;
  bool tied = true;
  uint32_t credit_window = LoweringOptions().credit_window;
  std::vector<bool> recomputes = {};         // by stage: its block; empty: none
  std::vector<uint32_t> frozen_layers = {};  // of the embedding, a block for each stage, the norm and the head
  std::vector<std::pair<uint32_t, uint32_t>> skip_connections = {};  // between these layers
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
// Of a table of one's own; reads of the options what the table does not say.
SmallPipeline MakeSmallPipeline(const v1::ComputeTable& table, const SmallPipelineOptions& options);

// All forwards of a stage, stage after stage, then all its I, in the opposite order, then all W: an order that runs
// with the stages placed anywhere.
v1::ComputeTable BreadthFirstTable(const std::vector<uint32_t>& worker_of_stage, uint32_t num_micro_batches);

}  // namespace stagecoach::testing

#endif  // STAGECOACH_COORDINATOR_PROGRAM_TESTING_SMALL_PIPELINE_H_
