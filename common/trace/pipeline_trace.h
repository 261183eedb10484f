#ifndef STAGECOACH_COMMON_TRACE_PIPELINE_TRACE_H_
#define STAGECOACH_COMMON_TRACE_PIPELINE_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stagecoach {

// What a pipeline did, or would do, and when: recorded or simulated, and shown by WriteChromeTrace and DrawTrace. Times
// are seconds since the trace's begin, on one clock.

enum class SpanKind {
  kForward,
  kBackward,
  kBackwardInput,
  kBackwardWeight,
  kRecompute,
  kUpdate,
  kOther,  // norms, ties, posting transfers
  kLoad,   // reading data; not busy
  kWait,   // for a transfer; not busy
};

// Spans of one stage do not overlap.
struct TraceSpan {
  SpanKind kind = SpanKind::kOther;
  std::string name = {};  // of the action: "2F0"
  uint32_t stage = 0;
  std::optional<uint32_t> micro_batch = std::nullopt;  // nullopt: of the whole step
  uint64_t step = 0;
  double begin = 0;
  double end = 0;
};

// One end of a transfer: of several at a time, in the order of their posts.
struct TraceTransfer {
  enum class Kind { kActivation, kGradient, kTie, kSkip, kSkipGradient };
  Kind kind = Kind::kActivation;
  std::string name = {};  // "2SEND_F0"
  uint32_t stage = 0;
  uint32_t peer_stage = 0;
  bool sent = false;  // received otherwise
  uint32_t micro_batch = 0;
  uint64_t step = 0;
  uint64_t bytes = 0;
  double begin = 0;      // its post
  double end = 0;        // the buffer is free (sent) or full (received)
  bool complete = true;  // otherwise `end` is where the run was cut off
};

struct TraceStage {
  uint32_t worker = 0;                               // rank; the stages of one worker share it
  std::string worker_name = {};                      // empty: of a simulation
  std::string missing = {};                          // why nothing is known of it; empty: something is
  std::optional<double> clock_error = std::nullopt;  // its times are off by so many seconds at most
};

struct TraceStep {
  uint64_t step = 0;
  double begin = 0;
  double end = 0;
};

struct PipelineTrace {
  std::string name = {};                // of the job or schedule
  std::vector<TraceStage> stages = {};  // by global index
  std::vector<TraceStep> steps = {};    // in their order
  std::vector<TraceSpan> spans = {};
  std::vector<TraceTransfer> transfers = {};
  std::vector<std::string> notes = {};  // for people: what the trace lacks
};

// The way of one micro-batch of one step through the stages: its forwards up, its backwards (for the input) down.
// Indices into spans; at least two.
struct MicroBatchFlow {
  uint64_t step = 0;
  uint32_t micro_batch = 0;
  std::vector<size_t> spans;
};
std::vector<MicroBatchFlow> FlowsOf(const PipelineTrace& trace);

// What the workers did with a step, as StepEvent reports it: busy seconds of the spans that belong to the step, over
// its duration. Nothing where nothing is known.
struct StepUtilization {
  uint64_t step = 0;
  double seconds = 0;
  std::vector<std::optional<double>> stages;  // 0..1; stages of one worker share theirs
  std::optional<double> bubble_ratio;         // of the workers that are known: 1 - their mean utilization
};
std::vector<StepUtilization> UtilizationOf(const PipelineTrace& trace);

bool IsBusy(SpanKind kind);

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_TRACE_PIPELINE_TRACE_H_
