#include "client/commands/event_list.h"

#include <algorithm>
#include <utility>

#include "client/coordinator_client/job_feed.h"
#include "client/coordinator_client/job_states.h"
#include "client/output/event_view.h"
#include "common/clock.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(50);
constexpr absl::Duration kAnswer = absl::Seconds(10);
// A stream of a job that goes on does not end. When its events have come without a pause, all that are kept have.
constexpr absl::Duration kQuiet = absl::Milliseconds(500);

// Where the job's events have come to: the sequence of its current status.
absl::StatusOr<uint64_t> CurrentSequence(CoordinatorClient& client, const std::string& job) {
  JobFeed feed(client, job, {.only_new = true, .reconnect = {.timeout = kAnswer}});
  const Clock& clock = Clock::Real();
  for (const absl::Duration end = clock.Now() + kAnswer; clock.Now() < end;) {
    STAGECOACH_ASSIGN_OR_RETURN(const std::optional<v1::JobEvent> event, feed.Next(kPoll));
    if (event) return event->sequence();
  }
  return absl::UnavailableError("the coordinator at " + client.address() + " does not tell the job's events");
}

}  // namespace

absl::StatusOr<std::vector<v1::JobEvent>> EventsUntilNow(CoordinatorClient& client, const std::string& job) {
  STAGECOACH_ASSIGN_OR_RETURN(const uint64_t last, CurrentSequence(client, job));
  std::vector<v1::JobEvent> events;
  JobFeed feed(client, job, {.reconnect = {.timeout = kAnswer}});
  const Clock& clock = Clock::Real();
  absl::Duration newest = clock.Now();
  while (events.empty() || events.back().sequence() < last) {
    absl::StatusOr<std::optional<v1::JobEvent>> event = feed.Next(kPoll);
    if (absl::IsOutOfRange(event.status())) break;
    if (!event.ok()) return event.status();
    if (event->has_value()) {
      newest = clock.Now();
      events.push_back(*std::move(*event));
    } else if (clock.Now() - newest > kQuiet) {
      break;
    }
  }
  return events;
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
