#ifndef STAGECOACH_WORKER_EXECUTOR_EXECUTOR_H_
#define STAGECOACH_WORKER_EXECUTOR_EXECUTOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/ids.h"
#include "stagecoach/v1/program.pb.h"
#include "stagecoach/v1/worker.pb.h"
#include "worker/data/batch_source.h"
#include "worker/device/device.h"
#include "worker/executor/trace_ring.h"
#include "worker/model/stage.h"
#include "worker/model/stage_state.h"
#include "worker/transport/transport.h"

namespace stagecoach {

// What went over this worker's end of a channel in one run.
struct Traffic {
  uint32_t channel = 0;  // index into the program's channels
  bool sent = false;     // received otherwise
  uint64_t bytes = 0;
  double wait_seconds = 0;  // in which nothing else was done
};

// What one run of a program found. Storage is reused by the next run.
struct RunReport {
  struct LossPart {
    MicroBatchIndex micro_batch;
    double value = 0;
  };
  std::vector<LossPart> loss_parts;  // last stage only
  std::vector<NormReport> squared_norms;
  uint64_t num_non_finite = 0;
  // By what the thread did; they sum to `total`.
  struct Seconds {
    double forward = 0, recompute = 0, backward_input = 0, backward_weight = 0;
    double p2p_wait = 0, data_wait = 0, other = 0, total = 0;
  };
  Seconds seconds;
  std::vector<Traffic> traffic;  // of every end of a channel to or from another worker
};

// Where the executor is, for heartbeats and hang verdicts. Read while it moves, the fields may be of two instants that
// follow each other; of an executor that stands still they are right.
struct ExecutorProgress {
  uint64_t step = 0;         // of the newest run
  uint64_t instruction = 0;  // index into the program; of the last one when it has ended
  bool waiting = false;      // on a transfer
  uint32_t channel = 0;      // when waiting: index into the program's channels
  double usual_seconds = 0;  // of this instruction; see InstructionTimes
};

// Interprets a StageProgram, one instruction after another; knows no schedule. One Executor per program and epoch;
// after Abort it is destroyed. Run is called by the executor's thread; Abort and progress by any. After the second run,
// Run allocates no memory.
class Executor {
 public:
  // All outlive the executor. The channels are those of program.channels(), in that order; null for a channel between
  // two stages of this worker, which no transport carries.
  struct Collaborators {
    Device& device;
    Stream& stream;
    BatchSource& data;
    std::vector<Stage*> stages;       // by StageProgram.stages
    std::vector<StageState*> states;  // likewise
    std::vector<Channel*> channels;
    std::span<std::byte> arena;     // program.arena_bytes(), 64-byte aligned
    uint64_t micro_batch_size = 0;  // samples of a full micro-batch
    uint64_t seq_len = 0;
    absl::Duration transfer_timeout = absl::Minutes(10);  // longest wait for one transfer
    const Clock& clock = Clock::Real();                   // of the seconds in the report
    // Where runs are recorded, as of this epoch; null: nowhere.
    TraceRing* trace = nullptr;
    Epoch epoch = {};
  };
  // INVALID_ARGUMENT: the program needs more than the arena has, a slot is smaller than what its stage needs, or an
  // instruction names what is not there or not of its kind, or does not name a slot that it needs.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(const v1::StageProgram& program, Collaborators collaborators);
  virtual ~Executor() = default;

  // Parameters do not change; a training run ends with final gradients in the states' accumulators, a forward-only one
  // leaves them alone. All transfers and all device work are complete at return. ABORTED after Abort; UNAVAILABLE: a
  // peer is gone; INVALID_ARGUMENT: the order is not for this program; errors name the action ("2F0").
  // FAILED_PRECONDITION: an earlier run failed, so the channels are out of step.
  virtual absl::StatusOr<const RunReport*> Run(const v1::RunStep& order) = 0;
  // Final. Run returns within 100 ms from wherever it is: cancels the stream; the caller aborts the transport, whose
  // waiters return by it.
  virtual void Abort() = 0;
  virtual ExecutorProgress progress() const = 0;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_EXECUTOR_EXECUTOR_H_
