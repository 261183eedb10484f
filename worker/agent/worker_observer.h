#ifndef STAGECOACH_WORKER_AGENT_WORKER_OBSERVER_H_
#define STAGECOACH_WORKER_AGENT_WORKER_OBSERVER_H_

#include <cstdint>

#include "common/ids.h"
#include "stagecoach/v1/program.pb.h"
#include "worker/executor/executor.h"

namespace stagecoach {

struct StageBytes {
  uint64_t state = 0;     // parameters, gradients, optimizer
  uint64_t arena = 0;     // activations, transfer slots, scratch
  uint64_t snapshot = 0;  // the copy that checkpoints are written from behind training, in host memory; 0: none
};

// Sees what a worker does, for metrics. Thread-safe: called by the agent's and the executor's thread, which others wait
// for, so that no method may block.
class WorkerObserver {
 public:
  virtual ~WorkerObserver() = default;

  // Of the agent's thread, which looks at least once a second.
  virtual void OnSession(uint64_t num_sessions, bool in_session) = 0;

  // Of the executor's thread. Stages are built, and what they need is allocated.
  virtual void OnStagesPrepared(const JobId& job, const v1::StageProgram& program, const StageBytes& bytes) = 0;
  // A run of `program` has ended well.
  virtual void OnRun(const JobId& job, const v1::StageProgram& program, const RunReport& report) = 0;
  // Nothing of a job is held any more.
  virtual void OnReleased() = 0;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_AGENT_WORKER_OBSERVER_H_
