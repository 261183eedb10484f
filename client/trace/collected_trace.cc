#include "client/trace/collected_trace.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/status_macros.h"

namespace stagecoach {

absl::Status TraceCollector::Add(v1::TraceChunk chunk) {
  if (chunk.has_header()) {
    if (has_header_) return absl::DataLossError("the coordinator has begun the timeline twice");
    has_header_ = true;
    trace_.header = std::move(*chunk.mutable_header());
    trace_.workers.resize(static_cast<size_t>(trace_.header.members_size()));
    return absl::OkStatus();
  }
  const uint32_t rank = chunk.has_worker() ? chunk.worker().worker_rank() : chunk.missing().worker_rank();
  if (rank >= trace_.workers.size()) {
    return absl::DataLossError(
        absl::StrCat("the timeline has a worker of rank ", rank, "; the job has ", trace_.workers.size(), " workers"));
  }
  CollectedTrace::Worker& worker = trace_.workers[rank];
  if (chunk.has_worker()) return AddPart(worker, *chunk.mutable_worker()->mutable_part());
  worker.missing = chunk.missing().message().empty() ? "unknown" : chunk.missing().message();
  return absl::OkStatus();
}

absl::Status TraceCollector::AddPart(CollectedTrace::Worker& worker, v1::TracePart& part) {
  if (part.last()) {
    worker.most_steps = part.most_steps();
    worker.kept_job = part.kept_job();
    if (part.has_clock()) worker.clock = part.clock();
  }
  if (!part.has_step()) return absl::OkStatus();
  v1::StepTrace& run = *part.mutable_step();
  // Parts of one run come one after another, and no worker begins two of them at once.
  const bool goes_on = !worker.runs.empty() && worker.runs.back().begin() == run.begin();
  if (goes_on) {
    worker.runs.back().mutable_instructions()->MergeFrom(run.instructions());
    worker.runs.back().mutable_transfers()->MergeFrom(run.transfers());
  } else {
    worker.runs.push_back(std::move(run));
  }
  return absl::OkStatus();
}

absl::StatusOr<CollectedTrace> CollectTrace(StreamCall<v1::TraceChunk>& call, absl::Duration timeout) {
  const Clock& clock = Clock::Real();
  const absl::Duration deadline = clock.Now() + timeout;
  TraceCollector collector;
  while (true) {
    absl::StatusOr<std::optional<v1::TraceChunk>> chunk = call.Next(deadline - clock.Now());
    if (absl::IsOutOfRange(chunk.status())) return collector.trace();
    if (!chunk.ok()) return chunk.status();
    if (!chunk->has_value()) {
      return absl::DeadlineExceededError(
          absl::StrCat("the coordinator has not told the whole timeline in ", absl::FormatDuration(timeout)));
    }
    STAGECOACH_RETURN_IF_ERROR(collector.Add(**std::move(chunk)));
  }
}

}  // namespace stagecoach
