#ifndef STAGECOACH_COORDINATOR_TRACE_READINGS_H_
#define STAGECOACH_COORDINATOR_TRACE_READINGS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "coordinator/jobs/effect.h"
#include "stagecoach/v1/trace.pb.h"

namespace stagecoach {

// Called by the coordinator's thread: they must not block. on_end is the last call, with OK after everything: an error
// of on_chunk ends the reading with that error.
struct TraceReader {
  std::function<absl::Status(v1::TraceChunk)> on_chunk;
  std::function<void(const absl::Status&)> on_end;
};

// The timelines that are being read: who waits for which workers, and until when. Also keeps when the newest steps of
// each job were. In memory only; used by one thread.
class TraceReadings {
 public:
  static constexpr size_t kMostReadings = 8;  // at a time: each may hold what its reader has not taken yet

  // Before Begin, which follows or Remove does. RESOURCE_EXHAUSTED: there are kMostReadings.
  absl::Status Add(uint64_t reading, TraceReader reader);
  // Gives the reader the header and who is missing. A reading that was removed meanwhile is ignored, here and below.
  void Begin(const BeginTraceReading& effect);
  // Of a worker that the reading waits for, until its last part.
  void Take(TakeTracePart part);
  // Those whose deadline has passed end, and say who has not answered.
  void Expire(absl::Duration now);
  // The reader has gone: it is not called any more.
  void Remove(uint64_t reading) { readings_.erase(reading); }
  void EndAll(const absl::Status& why);

  void NoteStep(const StepMeasured& step);
  void Forget(const JobId& job) { steps_.erase(job); }

 private:
  struct Reading {
    TraceReader reader;
    std::map<WorkerId, uint32_t> awaited;  // rank by worker
    absl::Duration deadline = absl::InfiniteDuration();
  };
  using Place = std::map<uint64_t, Reading>::iterator;

  // False: the reading has ended for it.
  bool Give(Place reading, v1::TraceChunk chunk);
  bool GiveMissing(Place reading, uint32_t rank, const std::string& why);
  void End(Place reading, const absl::Status& status);

  std::map<uint64_t, Reading> readings_;
  std::map<JobId, std::deque<v1::StepWindow>> steps_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_TRACE_READINGS_H_
