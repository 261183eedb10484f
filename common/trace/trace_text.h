#ifndef STAGECOACH_COMMON_TRACE_TRACE_TEXT_H_
#define STAGECOACH_COMMON_TRACE_TRACE_TEXT_H_

#include <string>

#include "common/trace/pipeline_trace.h"

namespace stagecoach {

struct TraceTextStyle {
  int columns = 100;    // of a line, at least 40
  bool colour = false;  // false: plain ASCII without escapes
};

// Draws each step of the trace, one line a stage, for a terminal:
//
//   step 12: 0.103 s, bubble 14.2%; a column is 1.24 ms
//   stage 0 |UF0==F1==F2==....I0==W0==.~~I1==W1==| 85.8%
//
// A column shows what took most of it: a letter where an action begins, with the micro-batch's number when it fits, and
// `=` as long as it goes on; a legend follows.
std::string DrawTrace(const PipelineTrace& trace, const TraceTextStyle& style);

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_TRACE_TRACE_TEXT_H_
