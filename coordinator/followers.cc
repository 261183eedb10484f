#include "coordinator/followers.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace stagecoach {
namespace {

// Of a follower that is behind, before others have their turn: well under a tenth of a millisecond.
constexpr int kPortion = 64;

std::function<bool(const v1::LogRecord&)> MatchesRequest(const v1::FollowLogsRequest& request) {
  return [request](const v1::LogRecord& record) {
    if (!request.worker().empty() && record.worker() != request.worker()) return false;
    const auto& stages = record.line().stages();
    return !request.has_stage() || std::find(stages.begin(), stages.end(), request.stage()) != stages.end();
  };
}

}  // namespace

void Followers::Insert(FollowerId id, Entry entry) {
  by_job_[entry.job].insert(id);
  behind_.insert(id);
  entries_.emplace(id, std::move(entry));
}

void Followers::Add(FollowerId id, const v1::FollowJobRequest& request, const v1::JobStatus& status, bool has_ended,
                    JobFollower follower) {
  const JobId job(request.job());
  EventReader reader;
  reader.on_event = std::move(follower.on_event);
  if (request.only_new()) {
    reader.index = events_.End(job);
    reader.first.emplace();
    reader.first->set_sequence(events_.LastSequence(job));
    *reader.first->mutable_status() = status;
  } else {
    reader.index = events_.IndexAfter(job, request.after_sequence());
    reader.num_missing = events_.NumMissing(job, request.after_sequence());
  }
  Insert(id, {job, has_ended, std::move(reader), std::move(follower.on_end)});
}

void Followers::Add(FollowerId id, const v1::FollowLogsRequest& request, CoordinatorTerm term, bool has_ended,
                    LogFollower follower) {
  const JobId job(request.job());
  LogReader reader;
  reader.on_line = std::move(follower.on_line);
  reader.matches = MatchesRequest(request);
  if (request.after().coordinator_term() == term.value()) reader.sequence = request.after().sequence();
  if (request.tail() > 0) {
    reader.sequence = std::max(reader.sequence, log_.SequenceBeforeTail(job, request.tail(), reader.matches));
  }
  // Without `follow` the log ends where it now ends.
  if (!request.follow()) reader.end = log_.LastSequence(job);
  Insert(id, {job, has_ended, std::move(reader), std::move(follower.on_end)});
}

absl::Status Followers::EventReader::Send(const v1::JobEvent& event, uint64_t missing) const {
  if (missing == 0) return on_event(event);
  v1::JobEvent marked = event;
  marked.set_num_missing(event.num_missing() + missing);
  return on_event(marked);
}

Followers::Progress Followers::EventReader::Deliver(const EventLog& events, const JobId& job, bool job_has_ended) {
  if (first.has_value() && !on_event(*first).ok()) return Progress::kDropped;
  first.reset();
  for (int i = 0; i < kPortion; ++i) {
    const uint64_t expected = index;
    const v1::JobEvent* event = events.Find(job, index);
    if (event == nullptr) return job_has_ended ? Progress::kEnded : Progress::kWaits;
    const uint64_t missing = std::exchange(num_missing, 0) + (index - expected);
    ++index;
    if (!Send(*event, missing).ok()) return Progress::kDropped;
  }
  return Progress::kMore;
}

Followers::Progress Followers::LogReader::Deliver(const LogBook& log, const JobId& job, bool job_has_ended) {
  for (int i = 0; i < kPortion; ++i) {
    const v1::LogRecord* record = log.FindAfter(job, sequence);
    if (record == nullptr || record->token().sequence() > end) {
      return job_has_ended || end != UINT64_MAX ? Progress::kEnded : Progress::kWaits;
    }
    sequence = record->token().sequence();
    if (matches(*record) && !on_line(*record).ok()) return Progress::kDropped;
  }
  return Progress::kMore;
}

Followers::Progress Followers::Deliver(Entry& entry) const {
  if (auto* reader = std::get_if<EventReader>(&entry.reader)) {
    return reader->Deliver(events_, entry.job, entry.job_has_ended);
  }
  return std::get<LogReader>(entry.reader).Deliver(log_, entry.job, entry.job_has_ended);
}

void Followers::Remove(FollowerId id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  const auto of_job = by_job_.find(found->second.job);
  of_job->second.erase(id);
  if (of_job->second.empty()) by_job_.erase(of_job);
  behind_.erase(id);
  entries_.erase(found);
}

void Followers::Wake(const JobId& job) {
  const auto found = by_job_.find(job);
  if (found != by_job_.end()) behind_.insert(found->second.begin(), found->second.end());
}

void Followers::JobHasEnded(const JobId& job) {
  const auto found = by_job_.find(job);
  if (found == by_job_.end()) return;
  for (const FollowerId& id : found->second) entries_.at(id).job_has_ended = true;
  Wake(job);
}

void Followers::JobIsForgotten(const JobId& job, const absl::Status& why) {
  const auto found = by_job_.find(job);
  if (found == by_job_.end()) return;
  const std::set<FollowerId> ids = found->second;
  for (const FollowerId& id : ids) {
    const auto on_end = std::move(entries_.at(id).on_end);
    Remove(id);
    on_end(why);
  }
}

void Followers::Pump() {
  const std::vector<FollowerId> turn(behind_.begin(), behind_.end());
  for (const FollowerId& id : turn) {
    const auto found = entries_.find(id);
    if (found == entries_.end()) continue;
    const Progress progress = Deliver(found->second);
    if (progress == Progress::kMore) continue;
    behind_.erase(id);
    if (progress == Progress::kWaits) continue;
    const auto on_end = std::move(found->second.on_end);
    Remove(id);
    if (progress == Progress::kEnded) on_end(absl::OkStatus());
  }
}

void Followers::EndAll(const absl::Status& why) {
  by_job_.clear();
  behind_.clear();
  for (const auto& [id, entry] : std::exchange(entries_, {})) entry.on_end(why);
}

}  // namespace stagecoach
