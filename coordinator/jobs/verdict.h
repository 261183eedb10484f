#ifndef STAGECOACH_COORDINATOR_JOBS_VERDICT_H_
#define STAGECOACH_COORDINATOR_JOBS_VERDICT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

// Sum of the parts in micro-batch order, in double; parts of micro-batches without samples are left out. Exactly one
// part for each of the others, or INTERNAL naming the micro-batch.
absl::StatusOr<double> SumLossParts(const std::vector<v1::LossPart>& parts, const std::vector<uint32_t>& samples);

struct VerdictInput {
  uint64_t step = 0;
  std::vector<std::shared_ptr<const v1::StepPrepared>> votes;  // of every stage, in any order
  std::vector<uint32_t> samples;                               // of each micro-batch
  double loss_scale = 1;
  double max_grad_norm = 0;  // 0: no clipping
  double learning_rate = 0;
  uint64_t num_updates_before = 0;
};

// The record of a step that every stage has prepared. The norm is the root of the squared norms added in bytewise name
// order, so that it does not depend on which stage reported which tensor. Skips when a gradient is not finite. Pure.
// INTERNAL: a tensor has two owners, or a loss part is missing or there twice.
absl::StatusOr<v1::CommitRecord> DecideVerdict(const VerdictInput& input);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOBS_VERDICT_H_
