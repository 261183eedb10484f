#ifndef STAGECOACH_COORDINATOR_PLAN_COST_MODEL_H_
#define STAGECOACH_COORDINATOR_PLAN_COST_MODEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/frozen_layers.h"
#include "coordinator/plan/layer_costs.h"
#include "coordinator/plan/partition.h"
#include "coordinator/plan/partition_problem.h"
#include "coordinator/plan/worker_profile.h"
#include "coordinator/program/stage_memory.h"
#include "coordinator/schedule/schedule.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/plan.pb.h"

namespace stagecoach {

// Which layers a job may recompute; blocks in any case.
enum class RecomputationChoice {
  kNone,
  kSelective,  // those that memory makes necessary
  kFull,       // all
};
// parallelism.activation_checkpointing. INVALID_ARGUMENT: another word.
absl::StatusOr<RecomputationChoice> RecomputationOf(const v1::ParallelismSpec& parallelism);

// From the FLOPs of a graph's layers. [num_layers]
std::vector<LayerSeconds> AnalyticSeconds(const v1::ModelGraph& graph, const WorkerProfile& worker);

struct ModelSeconds {
  std::vector<LayerSeconds> layers;  // [num_layers]
  bool all_measured = false;
};
// What was measured on the worker; the other layers' FLOPs, at the rate that those measured were done at when these are
// most of the model's: an embedding, which moves memory, says nothing about the rate of products.
ModelSeconds KnownSeconds(const v1::ModelGraph& graph, const WorkerProfile& worker);

// What making the activations of a block again takes, whose forward takes `forward_seconds`: the forward without its
// last product, which makes the output and nothing that the backward reads.
double RecomputeSeconds(const v1::ModelGraph& graph, const v1::LayerSpec& block, double forward_seconds);

// What a specification says about the state of the stages.
StateOptions StateOptionsOf(const v1::JobSpec& spec);

// The model and the workers as the partitioner sees them, a stage per worker and without slots: both are the
// schedule's. Workers differ in speed as they differ in FLOPs per second; `seconds` are those of the first one.
PartitionProblem PartitionProblemOf(const v1::ModelGraph& graph, const std::vector<LayerSeconds>& seconds,
                                    RecomputationChoice recomputation, const StateOptions& state,
                                    const std::vector<WorkerProfile>& workers);

// What frozen layers leave of the backward. [num_stages]
std::vector<StageBackward> BackwardOfStages(const v1::ModelGraph& graph, const StagePartition& stages);

// Of every stage, on its worker. [num_stages]
std::vector<StageCost> StageCosts(const PartitionProblem& problem, const Partition& partition);

// The skip edges between the stages, of a training step: all connections between two share one, and its transfer has
// all their tensors, each rounded up.
std::vector<SkipCost> SkipCosts(const v1::ModelGraph& graph, const StagePartition& stages, double bytes_per_second);

// Of the update of one worker's parameters at the end of a step, of the slowest worker.
double UpdateSeconds(const v1::ModelGraph& graph, const StateOptions& state, const PartitionProblem& problem,
                     const StagePartition& stages, const std::vector<WorkerProfile>& workers);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PLAN_COST_MODEL_H_
