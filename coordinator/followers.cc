#include "coordinator/followers.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace stagecoach {
namespace {

// Of a follower that is behind, before others have their turn: well under a millisecond.
constexpr int kPortion = 256;

// Where one reader of a job's events is.
struct EventPosition {
  uint64_t index = 0;
  uint64_t num_missing = 0;  // before the event at `index`
  std::optional<v1::JobEvent> first;
};

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
  const auto position = std::make_shared<EventPosition>();
  if (request.only_new()) {
    position->index = events_.End(job);
    position->first.emplace();
    position->first->set_sequence(events_.LastSequence(job));
    *position->first->mutable_status() = status;
  } else {
    position->index = events_.IndexAfter(job, request.after_sequence());
    position->num_missing = events_.NumMissing(job, request.after_sequence());
  }
  auto deliver = [this, job, position, on_event = std::move(follower.on_event)](const Entry& entry) {
    if (position->first.has_value() && !on_event(*position->first).ok()) return Progress::kDropped;
    position->first.reset();
    for (int i = 0; i < kPortion; ++i) {
      const uint64_t expected = position->index;
      const v1::JobEvent* event = events_.Find(job, position->index);
      if (event == nullptr) return entry.job_has_ended ? Progress::kEnded : Progress::kWaits;
      const uint64_t missing = std::exchange(position->num_missing, 0) + (position->index - expected);
      ++position->index;
      absl::Status sent;
      if (missing == 0) {
        sent = on_event(*event);
      } else {
        v1::JobEvent marked = *event;
        marked.set_num_missing(event->num_missing() + missing);
        sent = on_event(marked);
      }
      if (!sent.ok()) return Progress::kDropped;
    }
    return Progress::kMore;
  };
  Insert(id, {job, has_ended, std::move(deliver), std::move(follower.on_end)});
}

void Followers::Add(FollowerId id, const v1::FollowLogsRequest& request, CoordinatorTerm term, bool has_ended,
                    LogFollower follower) {
  const JobId job(request.job());
  const auto matches = MatchesRequest(request);
  uint64_t start = request.after().coordinator_term() == term.value() ? request.after().sequence() : 0;
  if (request.tail() > 0) start = std::max(start, log_.SequenceBeforeTail(job, request.tail(), matches));
  const auto sequence = std::make_shared<uint64_t>(start);
  // Without `follow` the log ends where it now ends.
  const uint64_t end = request.follow() ? UINT64_MAX : log_.LastSequence(job);
  auto deliver = [this, job, sequence, end, matches, on_line = std::move(follower.on_line)](const Entry& entry) {
    for (int i = 0; i < kPortion; ++i) {
      const v1::LogRecord* record = log_.FindAfter(job, *sequence);
      if (record == nullptr || record->token().sequence() > end) {
        return entry.job_has_ended || end != UINT64_MAX ? Progress::kEnded : Progress::kWaits;
      }
      *sequence = record->token().sequence();
      if (matches(*record) && !on_line(*record).ok()) return Progress::kDropped;
    }
    return Progress::kMore;
  };
  Insert(id, {job, has_ended, std::move(deliver), std::move(follower.on_end)});
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

void Followers::Pump() {
  const std::vector<FollowerId> turn(behind_.begin(), behind_.end());
  for (const FollowerId& id : turn) {
    const auto found = entries_.find(id);
    if (found == entries_.end()) continue;
    const Progress progress = found->second.deliver(found->second);
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
