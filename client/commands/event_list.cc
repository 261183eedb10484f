#include "client/commands/event_list.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/coordinator_client/job_feed.h"
#include "client/coordinator_client/job_states.h"
#include "client/output/event_view.h"
#include "common/clock.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(50);
constexpr absl::Duration kAnswer = absl::Seconds(10);

absl::Status SilentError(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat("the coordinator does not tell ", what));
}

// Where the job's events have come to: the sequence of its current status.
absl::StatusOr<uint64_t> CurrentSequence(CoordinatorClient& client, const std::string& job) {
  JobFeed feed(client, job, {.only_new = true, .reconnect = {.timeout = kAnswer}});
  const Clock& clock = Clock::Real();
  for (const absl::Duration end = clock.Now() + kAnswer; clock.Now() < end;) {
    STAGECOACH_ASSIGN_OR_RETURN(const std::optional<v1::JobEvent> event, feed.Next(kPoll));
    if (event) return event->sequence();
  }
  return SilentError("the job's status");
}

}  // namespace

// A stream of a job that goes on does not end, and one of a busy coordinator pauses.
absl::StatusOr<std::vector<v1::JobEvent>> EventsUpTo(uint64_t last, NextEvent next, const Clock& clock) {
  std::vector<v1::JobEvent> events;
  absl::Duration newest = clock.Now();
  while (last > 0 && (events.empty() || events.back().sequence() < last)) {
    absl::StatusOr<std::optional<v1::JobEvent>> event = next();
    if (absl::IsOutOfRange(event.status())) break;
    if (!event.ok()) return event.status();
    if (event->has_value()) {
      newest = clock.Now();
      events.push_back(*std::move(*event));
    } else if (clock.Now() - newest > kAnswer) {
      return SilentError("all of the job's events");
    }
  }
  return events;
}

absl::StatusOr<std::vector<v1::JobEvent>> EventsUntilNow(CoordinatorClient& client, const std::string& job) {
  STAGECOACH_ASSIGN_OR_RETURN(const uint64_t last, CurrentSequence(client, job));
  JobFeed feed(client, job, {.reconnect = {.timeout = kAnswer}});
  return EventsUpTo(
      last, [&feed] { return feed.Next(kPoll); }, Clock::Real());
}

Outcome ListEvents(CoordinatorClient& client, const std::string& job, const EventFilter& filter,
                   const OutputArguments& output) {
  std::vector<std::string> jobs = {job};
  if (job.empty()) {
    const absl::StatusOr<v1::ListJobsResponse> all = client.ListJobs();
    if (!all.ok()) return all.status();
    jobs.clear();
    for (const v1::Job& known : all->jobs()) jobs.push_back(known.status().job());
  }
  std::vector<std::pair<std::string, v1::JobEvent>> events;
  for (const std::string& name : jobs) {
    absl::StatusOr<std::vector<v1::JobEvent>> of_job = EventsUntilNow(client, name);
    if (!of_job.ok()) return of_job.status();
    for (v1::JobEvent& event : *of_job) {
      if (filter.Takes(event)) events.emplace_back(name, std::move(event));
    }
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const auto& a, const auto& b) { return a.second.sequence() < b.second.sequence(); });
  const bool wide = output.format == "wide";
  Listing listing{.key = "events", .table = Table(EventHeaders(wide))};
  for (const auto& [name, event] : events) {
    listing.names.push_back(std::to_string(event.sequence()));
    listing.items.push_back(EventJson(name, event));
    listing.table.AddRow(EventRow(name, event, wide));
  }
  PrintListing(listing, output);
  return kExitOk;
}

}  // namespace stagecoach
