#ifndef STAGECOACH_COMMON_TRACE_CLOCK_ALIGNMENT_H_
#define STAGECOACH_COMMON_TRACE_CLOCK_ALIGNMENT_H_

#include "common/trace/pipeline_trace.h"

namespace stagecoach {

// Moves the times of each worker within its clock_error so that no span of a micro-batch begins before the one that it
// comes after has ended, which only clocks that disagree can show; clock_error becomes what is left of it, and the
// trace begins at 0 or later. Of the offsets that are possible each worker gets the middle. The constraints are
// differences of two offsets, so that the extremes are shortest paths (Cormen et al., Introduction to Algorithms,
// "Difference constraints and shortest paths"). Changes nothing where no offsets satisfy them all: then an error is
// larger than it is said to be. Takes time proportional to the spans, and to the cube of the number of workers.
void AlignClocks(PipelineTrace& trace);

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_TRACE_CLOCK_ALIGNMENT_H_
