#ifndef STAGECOACH_COORDINATOR_SCHEDULE_GIVEN_ORDER_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_GIVEN_ORDER_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "coordinator/schedule/schedule.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// One table as a schedule: an order that a user gives, for its number of workers, stages and micro-batches and for no
// other. Whether its workers wait for each other, the simulator says; whether its W are in micro-batch order, the
// verifier.
class GivenOrder final : public Schedule {
 public:
  // INVALID_ARGUMENT: not F, B, I and W of each stage and micro-batch once (sheet_checks.h); R, which follows from what
  // a job recomputes; no backward; or stages that are placed neither in a loop nor in a V.
  static absl::StatusOr<std::unique_ptr<const GivenOrder>> Create(v1::ComputeTable table);

  absl::string_view name() const override { return table_.schedule(); }
  absl::string_view description() const override { return "as it is given"; }
  StagePlacement placement() const override { return placement_; }
  bool forward_only() const override { return false; }
  bool AcceptsChunks(uint32_t num_chunks) const override { return num_chunks == this->num_chunks(); }
  uint32_t num_chunks() const { return table_.num_stages() / num_workers(); }
  uint32_t num_workers() const { return static_cast<uint32_t>(table_.workers_size()); }
  // INVALID_ARGUMENT: the problem is another one.
  absl::StatusOr<v1::ComputeTable> Build(const ScheduleProblem& problem) const override;

 private:
  GivenOrder(v1::ComputeTable table, StagePlacement placement);

  const v1::ComputeTable table_;
  const StagePlacement placement_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_GIVEN_ORDER_H_
