#ifndef STAGECOACH_COORDINATOR_SCHEDULE_AUTO_BOUND_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_AUTO_BOUND_H_

#include <cstdint>
#include <vector>

#include "coordinator/schedule/auto_graph.h"

namespace stagecoach {

// What no order of the actions can beat under the memory limits (AutoCost::worst): the longest of
//  - each worker alone, where it may interrupt an action, and every action has a head (the longest way to it through
//  its
//    inputs, those of its stage and kind before it, the transfers of its edge and, with one chunk, the W whose memory
//    it takes) and a tail (the like from it on): the most urgent tail first is then optimal (Carlier, The one-machine
//    sequencing problem, 1982);
//  - what a worker must have done before its last I, since no more W can be left than its memory holds; and the mirror
//    image: what it must do after its first I, since no more F can come before;
//  - the time that each activation is held at least, from its F to its W, over the number that memory holds at a time.
class AutoBound {
 public:
  explicit AutoBound(const AutoGraph& graph);
  double seconds() const { return seconds_; }

 private:
  void SetHeads();
  void SetTails();
  void SetHead(uint32_t index);
  void SetTail(uint32_t index);
  // The other end of the arc from the W that frees memory to the F that takes it; kNoNode: none.
  uint32_t WeightBefore(uint32_t forward) const;
  uint32_t ForwardAfter(uint32_t weight) const;
  double OfWorker(uint32_t worker) const;
  double OfMemory(uint32_t worker) const;
  double OfHolding(uint32_t worker) const;
  double HoldingSeconds(uint32_t stage) const;
  double Work(uint32_t worker, AutoKind kind) const;
  double LongestInMemory(uint32_t worker, AutoKind kind) const;

  const AutoGraph& graph_;
  std::vector<double> head_;       // earliest start
  std::vector<double> sent_;       // earliest end of its transfer
  std::vector<double> tail_;       // from its end to the end of all
  std::vector<double> sent_tail_;  // from the end of its transfer
  double seconds_ = 0;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_AUTO_BOUND_H_
