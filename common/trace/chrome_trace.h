#ifndef STAGECOACH_COMMON_TRACE_CHROME_TRACE_H_
#define STAGECOACH_COMMON_TRACE_CHROME_TRACE_H_

#include <ostream>

#include "common/trace/pipeline_trace.h"

namespace stagecoach {

// Writes the trace as JSON in the Trace Event Format, which Perfetto and chrome://tracing open: one event a line, in
// the order of time. Times are microseconds.
//
//   process 1 + s       stage s
//     thread 1          what it computes, and what it waits for
//     threads 2, ...    its transfers: one for each end of a channel, or more when several are under way at a time
//   process 1 + stages  the job: its steps
//
// No number is 0, since that is the kernel's idle process to Perfetto. A flow leads each micro-batch of each step from
// stage to stage and back. `otherData` has what StepUtilization has, errors of clocks, and what is missing.
void WriteChromeTrace(const PipelineTrace& trace, std::ostream& out);

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_TRACE_CHROME_TRACE_H_
