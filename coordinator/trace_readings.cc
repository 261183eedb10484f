#include "coordinator/trace_readings.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/trace/trace_limits.h"

namespace stagecoach {

absl::Status TraceReadings::Add(uint64_t reading, TraceReader reader) {
  if (readings_.size() >= kMostReadings) {
    return absl::ResourceExhaustedError(
        absl::StrCat(kMostReadings, " timelines are being read already; ask again in a moment"));
  }
  readings_[reading].reader = std::move(reader);
  return absl::OkStatus();
}

void TraceReadings::Begin(const BeginTraceReading& effect) {
  const Place reading = readings_.find(effect.reading);
  if (reading == readings_.end()) return;
  reading->second.awaited = effect.awaited;
  reading->second.deadline = effect.deadline;
  v1::TraceChunk chunk;
  *chunk.mutable_header() = effect.header;
  if (const auto steps = steps_.find(JobId(effect.header.job())); steps != steps_.end()) {
    for (const v1::StepWindow& step : steps->second) {
      if (step.step() >= effect.header.first_step()) *chunk.mutable_header()->add_steps() = step;
    }
  }
  if (!Give(reading, std::move(chunk))) return;
  for (const auto& [rank, why] : effect.missing) {
    if (!GiveMissing(reading, rank, why)) return;
  }
  if (effect.awaited.empty()) End(reading, absl::OkStatus());
}

void TraceReadings::Take(TakeTracePart taken) {
  const Place reading = readings_.find(taken.part.request());
  if (reading == readings_.end()) return;
  const auto awaited = reading->second.awaited.find(taken.worker);
  if (awaited == reading->second.awaited.end()) return;
  const bool is_last = taken.part.last();
  v1::TraceChunk chunk;
  chunk.mutable_worker()->set_worker_rank(awaited->second);
  *chunk.mutable_worker()->mutable_part() = std::move(taken.part);
  if (!Give(reading, std::move(chunk)) || !is_last) return;
  reading->second.awaited.erase(awaited);
  if (reading->second.awaited.empty()) End(reading, absl::OkStatus());
}

void TraceReadings::Expire(absl::Duration now) {
  for (Place next = readings_.begin(); next != readings_.end();) {
    const Place reading = next++;
    if (now < reading->second.deadline) continue;
    bool goes_on = true;
    for (const auto& [worker, rank] : std::map<WorkerId, uint32_t>(reading->second.awaited)) {
      goes_on = GiveMissing(reading, rank, "it has not answered in time");
      if (!goes_on) break;
    }
    if (goes_on) End(reading, absl::OkStatus());
  }
}

bool TraceReadings::Give(Place reading, v1::TraceChunk chunk) {
  const absl::Status given = reading->second.reader.on_chunk(std::move(chunk));
  if (!given.ok()) End(reading, given);
  return given.ok();
}

bool TraceReadings::GiveMissing(Place reading, uint32_t rank, const std::string& why) {
  v1::TraceChunk chunk;
  chunk.mutable_missing()->set_worker_rank(rank);
  chunk.mutable_missing()->set_message(why);
  return Give(reading, std::move(chunk));
}

void TraceReadings::End(Place reading, const absl::Status& status) {
  const auto on_end = std::move(reading->second.reader.on_end);
  readings_.erase(reading);
  on_end(status);
}

void TraceReadings::EndAll(const absl::Status& why) {
  for (const auto& [id, reading] : std::exchange(readings_, {})) reading.reader.on_end(why);
}

void TraceReadings::NoteStep(const StepMeasured& step) {
  std::deque<v1::StepWindow>& steps = steps_[step.job];
  if (steps.size() == kMostTracedSteps) steps.pop_front();
  v1::StepWindow& window = steps.emplace_back();
  window.set_step(step.step.value());
  window.set_begin(absl::ToInt64Nanoseconds(step.begin));
  window.set_end(absl::ToInt64Nanoseconds(step.end));
}

}  // namespace stagecoach
