#ifndef STAGECOACH_WORKER_EXECUTOR_RUN_RECORDER_H_
#define STAGECOACH_WORKER_EXECUTOR_RUN_RECORDER_H_

#include <cstddef>
#include <string>

#include "absl/time/time.h"
#include "common/ids.h"
#include "stagecoach/v1/program.pb.h"
#include "worker/executor/trace_ring.h"

namespace stagecoach {

// Tells a ring what the runs of one program do; nothing when there is no ring. Reads no clock: the executor has looked
// already. Executor's thread only; allocates nothing after construction.
class RunRecorder {
 public:
  // `ring` outlives the recorder; null: none.
  RunRecorder(TraceRing* ring, Epoch epoch, const v1::StageProgram& program);

  void Begin(Step step, absl::Duration now);
  // The instruction under way, or the end of the run, has waited for a transfer until now.
  void NoteWait(absl::Duration now) { wait_end_ = absl::ToInt64Nanoseconds(now); }
  void AddInstruction(const v1::Action& action, absl::Duration begin, absl::Duration end);
  void End(absl::Duration now, bool failed);

 private:
  TraceRing* const ring_;
  const Epoch epoch_;
  const std::string program_hash_;
  size_t num_instructions_ = 0, num_transfers_ = 0;
  int64_t instructions_end_ = 0;  // of the last one
  int64_t wait_end_ = 0;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_EXECUTOR_RUN_RECORDER_H_
