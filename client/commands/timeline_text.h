#ifndef STAGECOACH_CLIENT_COMMANDS_TIMELINE_TEXT_H_
#define STAGECOACH_CLIENT_COMMANDS_TIMELINE_TEXT_H_

#include <string>

#include "coordinator/program/simulator.h"

namespace stagecoach {

// A picture of a step, one row a worker and `columns` characters wide: forwards show the last digit of their
// micro-batch, backwards a letter (a is micro-batch 0), idle time a dot.
std::string TimelineText(const Timeline& timeline, int columns);

// The same as a Chrome trace: one complete event per action, one process per worker, times in microseconds.
std::string TimelineTrace(const Timeline& timeline);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_TIMELINE_TEXT_H_
