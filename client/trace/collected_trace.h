#ifndef STAGECOACH_CLIENT_TRACE_COLLECTED_TRACE_H_
#define STAGECOACH_CLIENT_TRACE_COLLECTED_TRACE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/coordinator_client/message_stream.h"
#include "common/trace/pipeline_trace.h"
#include "stagecoach/v1/trace.pb.h"

namespace stagecoach {

// What CoordinatorService.ReadTrace tells, put together by worker.
struct CollectedTrace {
  struct Worker {
    std::vector<v1::StepTrace> runs = {};  // oldest first, whole
    std::optional<v1::ClockOffset> clock = std::nullopt;
    uint32_t most_steps = 0;  // that it keeps
    std::string kept_job = {};
    std::string missing = {};  // why it has not told anything; empty: it has
  };
  v1::TraceHeader header;
  std::vector<Worker> workers;  // by rank
};

// Takes the chunks of one reading in their order. DATA_LOSS: they contradict each other.
class TraceCollector {
 public:
  absl::Status Add(v1::TraceChunk chunk);
  const CollectedTrace& trace() const { return trace_; }

 private:
  absl::Status AddPart(CollectedTrace::Worker& worker, v1::TracePart& part);

  CollectedTrace trace_;
  bool has_header_ = false;
};

// Reads a call to its end. Errors of the call; DEADLINE_EXCEEDED: it has not ended after `timeout`.
absl::StatusOr<CollectedTrace> CollectTrace(StreamCall<v1::TraceChunk>& call, absl::Duration timeout);

// The timeline on the coordinator's clock, from the first thing that happened on: the runs of the steps asked for that
// were committed, and those that failed after them. `asked_steps` is what the user wanted, for the notes. Pure.
PipelineTrace BuildTrace(const CollectedTrace& collected, uint64_t asked_steps);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_TRACE_COLLECTED_TRACE_H_
