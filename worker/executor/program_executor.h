#ifndef STAGECOACH_WORKER_EXECUTOR_PROGRAM_EXECUTOR_H_
#define STAGECOACH_WORKER_EXECUTOR_PROGRAM_EXECUTOR_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "worker/executor/executor.h"
#include "worker/executor/instruction_times.h"
#include "worker/executor/prepared_program.h"
#include "worker/executor/run_recorder.h"

namespace stagecoach {

// The interpreter: a table of prepared instructions and one small function per kind. On devices whose work completes
// later, the event recorded after the last use of a buffer's bytes goes with the next post of the buffer; all else is
// in stream order. Threading as Executor.
class ProgramExecutor final : public Executor {
 public:
  ProgramExecutor(const v1::StageProgram& program, PreparedProgram prepared, Collaborators collaborators,
                  std::unique_ptr<Memory> losses, std::unique_ptr<Memory> host_losses);

  absl::StatusOr<const RunReport*> Run(const v1::RunStep& order) override;
  void Abort() override;
  ExecutorProgress progress() const override;

 private:
  absl::Status RunInstructions(const v1::RunStep& order);
  absl::Status CheckOrder(const v1::RunStep& order) const;
  absl::Status Begin(const v1::RunStep& order);
  absl::Status End();

  absl::Status Execute(PreparedInstruction& instruction);
  absl::Status Load(PreparedInstruction& instruction);
  absl::Status Forward(PreparedInstruction& instruction);
  absl::Status Recompute(PreparedInstruction& instruction);
  absl::Status BackwardInput(PreparedInstruction& instruction);
  absl::Status BackwardWeight(PreparedInstruction& instruction);
  absl::Status Send(PreparedInstruction& instruction);
  absl::Status Recv(PreparedInstruction& instruction);
  absl::Status Loss(PreparedInstruction& instruction);
  absl::Status SendTie(PreparedInstruction& instruction);
  absl::Status RecvTie(PreparedInstruction& instruction);
  absl::Status ReduceTie(PreparedInstruction& instruction);
  absl::Status GradientNorm(PreparedInstruction& instruction);

  // Waits for what is posted in the slots that the instruction reads and writes; a read slot must have been posted.
  absl::Status WaitForSlots(PreparedInstruction& instruction);
  absl::Status WaitTransfer(TransferSlots& slots, TransferSlots::Slot& slot);
  // Records the event that a later post waits for, if one does.
  absl::Status MarkUsed(PreparedInstruction& instruction);
  // What a post waits for; null: nothing.
  static EventRef ReadyOf(const PreparedInstruction& instruction);
  // All ends of channels that are here, in the order of RunReport::traffic.
  template <typename Visit>
  void ForEachEnd(Visit visit);
  absl::Status WaitDevice(const EventRef& event);
  Tensor Activation(TransferSlots* slots, size_t slot, int64_t samples) const;
  // Its slots, and of those of skip edges what a micro-batch has there.
  static const StageMemoryView& MemoryOf(PreparedInstruction& instruction, int64_t samples);
  Tensor Tokens(std::span<std::byte> region, int64_t samples) const;
  // Adds the time since the last charge to one of the report's sums.
  void Charge(double RunReport::Seconds::*sum);
  absl::Status CheckNotAborted() const;

  // Constant after construction.
  const bool forward_only_;
  const Collaborators collaborators_;
  const v1::DType compute_dtype_;
  const bool completes_at_enqueue_;
  const std::unique_ptr<Memory> losses_;       // f64 [num_micro_batches]
  const std::unique_ptr<Memory> host_losses_;  // where the host reads them; null: in losses_

  // Of the executor's thread.
  PreparedProgram program_;
  std::vector<MicroBatch> micro_batches_;
  Step step_;
  RunReport report_;
  InstructionTimes times_;
  RunRecorder recorder_;
  size_t num_norms_ = 0;
  absl::Duration last_charge_;
  bool failed_ = false;

  // Any thread.
  std::atomic<bool> aborted_{false};
  std::atomic<uint64_t> step_in_progress_{0};
  std::atomic<uint64_t> instruction_{0};
  std::atomic<double> usual_seconds_{0};
  std::atomic<bool> waiting_{false};
  std::atomic<uint32_t> waiting_channel_{0};
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_EXECUTOR_PROGRAM_EXECUTOR_H_
