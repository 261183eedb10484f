#include "coordinator/retention.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stagecoach {

std::optional<Decision> ForgetJobs(const State& state) {
  const size_t kept = std::max<size_t>(state.options().keep_jobs, 1);
  if (state.ended_jobs().size() <= kept) return std::nullopt;
  v1::JournalEntry entry;
  v1::JobsForgotten& forgotten = *entry.mutable_jobs_forgotten();
  Epoch highest = state.forgotten_epoch();
  size_t surplus = state.ended_jobs().size() - kept;
  for (auto job = state.ended_jobs().begin(); surplus > 0; ++job, --surplus) {
    forgotten.add_jobs(job->second.value());
    highest = std::max(highest, FenceEpoch(state.jobs().at(job->second).history));
  }
  forgotten.set_epoch(highest.value());
  Decision decision;
  decision.reason = absl::StrCat(forgotten.jobs_size(), " job(s) that have ended are forgotten");
  decision.effects.push_back(AppendEntry{std::move(entry)});
  return decision;
}

absl::Status UnknownJob(const JobId& job, const FleetOptions& options) {
  return absl::NotFoundError(absl::StrCat("there is no job ", job.value(),
                                          "; if there was, it has been forgotten: the ", options.keep_jobs,
                                          " newest jobs that have ended are kept"));
}

absl::Status CheckToken(const JobRecord& job, uint64_t after_sequence, const FleetOptions& options) {
  if (after_sequence == 0 || after_sequence >= job.history.submitted_at) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("the token ", after_sequence, " is of an earlier job ", job.id.value(),
                                          ", which has been forgotten: the ", options.keep_jobs,
                                          " newest jobs that have ended are kept"));
}

}  // namespace stagecoach
