#include "coordinator/event_log.h"

#include <algorithm>
#include <utility>

namespace stagecoach {

const EventLog::Events* EventLog::Find(const JobId& job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? nullptr : &found->second;
}

void EventLog::Add(const JobId& job, v1::JobEvent event) {
  const auto [found, is_new] = jobs_.try_emplace(job);
  Events& events = found->second;
  if (is_new) {
    events.place = by_use_.insert(by_use_.end(), job);
  } else {
    by_use_.splice(by_use_.end(), by_use_, events.place);
  }
  if (event.has_step()) {
    // Steps that this journal does not know one by one.
    event.set_num_missing(event.step().step() - events.last_step - 1);
    events.last_step = event.step().step();
  }
  events.last_sequence = event.sequence();
  events.kept.push_back(std::move(event));
  ++num_events_;
  if (events.kept.size() > limits_.events_per_job) DropOldest(events);
  Shrink();
}

void EventLog::Forget(const JobId& job) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  num_events_ -= found->second.kept.size();
  by_use_.erase(found->second.place);
  jobs_.erase(found);
}

void EventLog::DropOldest(Events& events) {
  events.last_dropped_sequence = events.kept.front().sequence();
  ++events.num_dropped;
  events.kept.pop_front();
  --num_events_;
}

// The event of a job's end is worth more than all before it, so the newest of each job stays.
void EventLog::Shrink() {
  for (auto job = by_use_.begin(); job != by_use_.end() && num_events_ > limits_.events; ++job) {
    Events& events = jobs_.at(*job);
    while (events.kept.size() > 1 && num_events_ > limits_.events) DropOldest(events);
  }
}

uint64_t EventLog::IndexAfter(const JobId& job, uint64_t sequence) const {
  const Events* events = Find(job);
  if (events == nullptr) return 0;
  const auto first =
      std::upper_bound(events->kept.begin(), events->kept.end(), sequence,
                       [](uint64_t token, const v1::JobEvent& event) { return token < event.sequence(); });
  return events->num_dropped + static_cast<uint64_t>(first - events->kept.begin());
}

uint64_t EventLog::End(const JobId& job) const {
  const Events* events = Find(job);
  return events == nullptr ? 0 : events->num_dropped + events->kept.size();
}

const v1::JobEvent* EventLog::Find(const JobId& job, uint64_t& index) const {
  const Events* events = Find(job);
  if (events == nullptr) return nullptr;
  index = std::max(index, events->num_dropped);
  const uint64_t position = index - events->num_dropped;
  return position < events->kept.size() ? &events->kept[position] : nullptr;
}

uint64_t EventLog::NumMissing(const JobId& job, uint64_t after_sequence) const {
  const Events* events = Find(job);
  if (events == nullptr || after_sequence >= events->last_dropped_sequence) return 0;
  return std::min(events->num_dropped, events->last_dropped_sequence - after_sequence);
}

uint64_t EventLog::LastSequence(const JobId& job) const {
  const Events* events = Find(job);
  return events == nullptr ? 0 : events->last_sequence;
}

}  // namespace stagecoach
