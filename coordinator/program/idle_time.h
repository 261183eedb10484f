#ifndef STAGECOACH_COORDINATOR_PROGRAM_IDLE_TIME_H_
#define STAGECOACH_COORDINATOR_PROGRAM_IDLE_TIME_H_

#include <vector>

#include "coordinator/program/simulator.h"

namespace stagecoach {

// Idle seconds of one worker between the step's first start and last end, by what would remove them.
struct IdleTime {
  double warm_up = 0;  // the pipeline fills: before the worker's first backward (its first forward, without backwards)
  double drain = 0;    // the pipeline empties: after its last forward
  double imbalance = 0;  // it has less to do than the busiest worker: another cut
  double transfer = 0;   // tensors were under way: faster links
  double order = 0;      // between its forwards and backwards others ran something else first: another order, which may
                         // need more memory
  double sum() const { return warm_up + drain + imbalance + transfer + order; }
};

// [num_workers]; sum() of a worker is the makespan minus its busy seconds. How a wait is divided:
// 1. The chain of causes is followed back through the wait (ChainBefore). Hops on it are `transfer`.
// 2. What is left belongs to the phase in which the worker waits: warm-up, drain, or between.
// 3. A worker that is busy for s seconds less than the busiest is idle for s seconds under any order. They are
//    `imbalance`, taken first from waits between, then from warm-up and drain in proportion to their lengths.
// 4. What is left between is `order`.
// `timeline` is one that Simulate has made. Pure.
std::vector<IdleTime> IdleByCause(const Timeline& timeline);

// Over all workers.
IdleTime Total(const std::vector<IdleTime>& idle);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_IDLE_TIME_H_
