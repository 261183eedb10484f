#ifndef STAGECOACH_COORDINATOR_STATE_H_
#define STAGECOACH_COORDINATOR_STATE_H_

#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "common/ids.h"
#include "coordinator/jobs/effect.h"
#include "coordinator/jobs/job_record.h"
#include "coordinator/jobs/queue.h"
#include "stagecoach/v1/journal.pb.h"

namespace stagecoach {

// Everything the coordinator knows. Apply alone changes the durable part (term, sequence, the history of jobs), Observe
// alone the rest. Thread-compatible.
class State {
 public:
  // FAILED_PRECONDITION: the entry does not follow from the durable part: a broken journal.
  absl::Status Check(const v1::JournalEntry& entry) const;
  // Cannot fail: Check has passed. Replaying the journal rebuilds the durable part.
  void Apply(const v1::JournalEntry& entry);
  void Observe(const ObserveFact& fact);

  const Jobs& jobs() const { return jobs_; }
  const Workers& workers() const { return workers_; }
  CoordinatorTerm term() const { return term_; }
  uint64_t last_sequence() const { return last_sequence_; }

 private:
  void Observe(const WorkerConnected& fact);
  void Observe(const WorkerLost& fact);
  void Observe(const ProgressChanged& fact);

  CoordinatorTerm term_;
  uint64_t last_sequence_ = 0;
  Jobs jobs_;
  Workers workers_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_STATE_H_
