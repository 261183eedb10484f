#ifndef STAGECOACH_WORKER_AGENT_HELD_STATE_H_
#define STAGECOACH_WORKER_AGENT_HELD_STATE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "stagecoach/v1/worker.pb.h"
#include "worker/agent/agent_options.h"
#include "worker/agent/interrupts.h"

namespace stagecoach {

// What a worker keeps of a job over epochs: the device, the state of its stages with the gradients of a step whose
// verdict is not known, and which step that is. The commit law at a worker is here. Executor's thread only.
class HeldState {
 public:
  explicit HeldState(const AgentOptions& options) : options_(options) {}

  // Applies `assignment.last_commit` if it is the verdict of what is prepared, and drops what was prepared otherwise:
  // the verdict is known. Then keeps the stages' state if it CanKeep it, or builds it, and restores it from the
  // checkpoint that the assignment names; without one the initializers make it, before the first step.
  // FAILED_PRECONDITION: neither is possible, and nothing has been dropped. Errors of the factories and of the
  // restorer: then no state is held. The reason of an interrupt of `generation`: it came before the state was built,
  // but not before the verdict was applied.
  absl::Status Prepare(std::shared_ptr<const v1::AssignStages> assignment, Interrupts& interrupts, uint64_t generation);
  // Whether the state that is held, once the assignment's verdict is applied, is that of the assignment's stages at its
  // last commit.
  bool CanKeep(const v1::AssignStages& assignment) const;
  // If `record` is the verdict of what is prepared. Otherwise all is kept as it is.
  absl::Status ApplyIfPrepared(const v1::CommitRecord& record);
  // FAILED_PRECONDITION: the step is neither prepared nor applied.
  absl::Status Commit(const v1::CommitRecord& record);
  void Release();  // the states; the device stays

  // FAILED_PRECONDITION unless `step` is the next one and no verdict is open: running it drops the gradients.
  absl::Status CheckMayRun(Step step) const;
  // FAILED_PRECONDITION unless the parameters are those after `step`.
  absl::Status CheckMayEvaluate(Step step) const;
  // The gradients of `step` are final: from now on nothing drops them but its verdict.
  void SetPrepared(Step step) { prepared_step_ = step; }

  bool has_state() const { return !states_.empty(); }
  Device& device() { return *device_; }
  // For updates and digests: never cancelled, since applying cannot be.
  Stream& stream() { return *stream_; }
  std::vector<StageState*> states() const;  // by stage of the program
  Step applied_step() const;                // of the stage that is furthest behind; 0: no state
  Step prepared_step() const { return prepared_step_; }
  uint64_t num_updates() const { return states_.empty() ? 0 : states_.front()->num_updates(); }
  uint64_t state_bytes() const;
  // The last update, of Clock::Real(); both 0: there was none since the last TakeUpdateSeconds.
  struct Interval {
    absl::Duration begin, end;
  };
  const Interval& last_update() const { return last_update_; }
  // Seconds of the updates that no one has asked for yet.
  double TakeUpdateSeconds();

 private:
  absl::Status CheckAssignment(const v1::AssignStages& assignment) const;
  bool HasSameLayers(const v1::StageProgram& program) const;
  absl::Status Build(std::shared_ptr<const v1::AssignStages> assignment, Interrupts& interrupts, uint64_t generation);
  absl::Status UseThreads(uint32_t threads);  // makes a device for so many
  absl::Status Apply(const v1::CommitRecord& record);

  const AgentOptions& options_;
  uint32_t threads_ = 0;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  // What the states were built from, and point into.
  std::shared_ptr<const v1::AssignStages> built_from_;
  std::vector<std::unique_ptr<StageState>> states_;
  Step prepared_step_;  // 0: none
  double update_seconds_ = 0;
  Interval last_update_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_AGENT_HELD_STATE_H_
