#ifndef STAGECOACH_CLIENT_TRACE_SPAN_KIND_H_
#define STAGECOACH_CLIENT_TRACE_SPAN_KIND_H_

#include "common/trace/pipeline_trace.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// As what an action is drawn; those that move or prepare no micro-batch are kOther.
SpanKind SpanKindOf(v1::ActionKind kind);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_TRACE_SPAN_KIND_H_
