#ifndef STAGECOACH_CLIENT_COMMANDS_TIMELINE_TRACE_H_
#define STAGECOACH_CLIENT_COMMANDS_TIMELINE_TRACE_H_

#include <ostream>
#include <string>

#include "coordinator/program/simulator.h"

namespace stagecoach {

// A simulated step as a Chrome trace (common/trace): a process for each stage, one event per action, a flow per
// micro-batch. Units of the timeline are taken for seconds, or for thousandths, millionths ... of one when the step
// would otherwise last longer than a viewer can show.
void WriteTimelineTrace(const Timeline& timeline, const std::string& name, std::ostream& out);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_TIMELINE_TRACE_H_
