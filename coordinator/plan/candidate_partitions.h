#ifndef STAGECOACH_COORDINATOR_PLAN_CANDIDATE_PARTITIONS_H_
#define STAGECOACH_COORDINATOR_PLAN_CANDIDATE_PARTITIONS_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/plan/partition.h"
#include "coordinator/plan/partition_problem.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach {

// Cuts one model for one schedule after another. Schedules differ in what their stages hold, which counts only where
// memory is short: the best partition of all is looked for once for each placement and number of stages, and is the
// best of those that fit wherever it is one of them. For one thread.
class CandidatePartitions {
 public:
  explicit CandidatePartitions(v1::PartitionSpec spec) : spec_(std::move(spec)) {}

  // As PartitionAsAsked; RESOURCE_EXHAUSTED says what the best partition of all lacks. Problems may differ in slots,
  // placement, chunks and memory, and are alike in all else.
  absl::StatusOr<Partition> Best(const PartitionProblem& problem);

 private:
  const absl::StatusOr<Partition>& Fastest(const PartitionProblem& problem);

  const v1::PartitionSpec spec_;
  std::map<std::pair<StagePlacement, uint32_t>, absl::StatusOr<Partition>> fastest_;  // whatever the memory
};

// What each worker needs when nothing is recomputed. [num_workers]
std::vector<uint64_t> NeededBytes(const PartitionProblem& problem, const StagePartition& stages);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PLAN_CANDIDATE_PARTITIONS_H_
