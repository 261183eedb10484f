#ifndef STAGECOACH_COORDINATOR_EVENT_LOG_H_
#define STAGECOACH_COORDINATOR_EVENT_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>

#include "common/ids.h"
#include "stagecoach/v1/coordinator.pb.h"

namespace stagecoach {

// The newest events of each job, in the order of the journal. An event has an index in its job, 0, 1, ..., that stays
// its own when older ones are dropped. Used by one thread.
class EventLog {
 public:
  struct Limits {
    size_t events_per_job = 65'536;
    size_t events = 400'000;  // of all jobs; above that, those of the job that has been quiet for longest go
  };
  EventLog() : EventLog(Limits{}) {}
  explicit EventLog(Limits limits) : limits_(limits) {}

  void Add(const JobId& job, v1::JobEvent event);
  void Forget(const JobId& job);

  // Of the first event after the token that is kept, or of the next one that comes.
  uint64_t IndexAfter(const JobId& job, uint64_t sequence) const;
  uint64_t End(const JobId& job) const;
  // Moves `index` on to the first event that is kept when it names one that is not. Null: there is no such event yet.
  const v1::JobEvent* Find(const JobId& job, uint64_t& index) const;
  // How many events after the token are no longer kept: exact for 0, else at most.
  uint64_t NumMissing(const JobId& job, uint64_t after_sequence) const;
  // Token of the newest event; 0: none.
  uint64_t LastSequence(const JobId& job) const;

 private:
  struct Events {
    std::deque<v1::JobEvent> kept;
    uint64_t num_dropped = 0;
    uint64_t last_dropped_sequence = 0;
    uint64_t last_sequence = 0;
    uint64_t last_step = 0;
    std::list<JobId>::iterator place;  // in by_use_
  };
  const Events* Find(const JobId& job) const;
  void DropOldest(Events& events);
  void Shrink();

  const Limits limits_;
  std::map<JobId, Events> jobs_;
  std::list<JobId> by_use_;  // least recently added to first
  size_t num_events_ = 0;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_EVENT_LOG_H_
