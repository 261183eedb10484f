#ifndef STAGECOACH_COORDINATOR_SCHEDULE_AUTO_LIST_SCHEDULER_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_AUTO_LIST_SCHEDULER_H_

#include <cstdint>
#include <vector>

#include "coordinator/schedule/auto_graph.h"
#include "coordinator/schedule/auto_timing.h"

namespace stagecoach {

// What a list schedule depends on, and what the search changes.
struct AutoKeys {
  std::vector<double> key;      // [nodes] the least of those that are ready runs first
  std::vector<uint32_t> depth;  // [workers] most forwards, of any chunk, whose I has not run; at least num_chunks
  // A worker with nothing but a W to run starts it only if its next input is at least this share of the W away.
  double patience = 0;
};

// Runs the actions of all workers in the order of time. A worker that is free takes the action with the least key among
// those whose input has arrived and whose memory is there; a forward that lacks only memory lends its key to the
// W that will free some; and no edge has more than kMaxUnread results unread. It never deadlocks: a forward of a chunk
// leaves memory for one of each chunk above, so the oldest micro-batch can always go on, and I and W need none. `depth`
// is counted like memory.
class AutoListScheduler {
 public:
  explicit AutoListScheduler(const AutoGraph& graph);

  AutoCost Run(const AutoKeys& keys);
  const AutoRows& rows() const { return rows_; }

 private:
  struct Event {
    double seconds;
    uint32_t worker;
    bool operator>(const Event& other) const {
      return seconds != other.seconds ? seconds > other.seconds : worker > other.worker;
    }
  };
  struct WorkerState {
    double free_at = 0;
    uint32_t num_held = 0;       // F done, W not
    uint32_t num_in_flight = 0;  // F done, I not
  };
  struct StageState {
    uint32_t next[kNumAutoKinds] = {};  // micro-batch
  };
  // What a free worker could do.
  struct Choice {
    uint32_t ready = kNoNode;  // F or I
    double ready_key = 0;
    uint32_t weight = kNoNode;
    double weight_key = 0;
    bool lacks_memory = false;  // of a forward that has all else
    double blocked_key = 0;     // the least of those
    double next_arrival = 0;    // of an input that is on its way
  };

  void Reset();
  void Push(double seconds, uint32_t worker);
  double ArrivalOfInput(uint32_t index) const;
  bool HasRoom(uint32_t index) const;
  Choice Look(const AutoKeys& keys, uint32_t worker, double now) const;
  void LookAtForward(const AutoKeys& keys, uint32_t stage, double now, Choice& choice) const;
  static void Offer(uint32_t index, double arrival, double key, double now, Choice& choice);
  uint32_t Take(const AutoKeys& keys, const Choice& choice, double now) const;
  void Start(uint32_t index, double now);

  const AutoGraph& graph_;
  std::vector<WorkerState> workers_;
  std::vector<StageState> stages_;
  std::vector<double> end_;
  std::vector<double> sent_;   // negative: not yet
  std::vector<Event> events_;  // a heap, the earliest on top
  AutoRows rows_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_AUTO_LIST_SCHEDULER_H_
