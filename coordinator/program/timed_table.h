#ifndef STAGECOACH_COORDINATOR_PROGRAM_TIMED_TABLE_H_
#define STAGECOACH_COORDINATOR_PROGRAM_TIMED_TABLE_H_

#include "coordinator/program/simulator.h"
#include "stagecoach/v1/program.pb.h"
#include "stagecoach/v1/timeline.pb.h"

namespace stagecoach {

// What Simulate has made of a table, as a message, with each worker's memory curve.
v1::TimedTable TimedTableOf(const v1::ComputeTable& table, const Timeline& timeline);

// The order of a timed table, without its times.
v1::ComputeTable TableOf(const v1::TimedTable& timed);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_TIMED_TABLE_H_
