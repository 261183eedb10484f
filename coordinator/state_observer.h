#ifndef STAGECOACH_COORDINATOR_STATE_OBSERVER_H_
#define STAGECOACH_COORDINATOR_STATE_OBSERVER_H_

#include "coordinator/jobs/effect.h"
#include "coordinator/state.h"
#include "stagecoach/v1/journal.pb.h"

namespace stagecoach {

// Sees all that changes the coordinator's state, and decides nothing. Called by the coordinator's thread, which workers
// wait for: no method may block.
class StateObserver {
 public:
  virtual ~StateObserver() = default;

  // The state has applied it. `replayed`: it was in the journal before this coordinator began.
  virtual void OnEntry(const v1::JournalEntry& entry, const State& state, bool replayed) = 0;
  // The state does not know it yet.
  virtual void BeforeFact(const ObserveFact& fact, const State& state) = 0;
  virtual void OnStepMeasured(const StepMeasured& step, const State& state) = 0;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_STATE_OBSERVER_H_
