#include "client/commands/private_cluster.h"

#include <iostream>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "client/commands/follow.h"
#include "client/coordinator_client/job_states.h"
#include "client/output/error_report.h"
#include "common/clock.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kStartTimeout = absl::Minutes(1);
constexpr absl::Duration kStopGrace = absl::Seconds(5);
// The coordinator notices a dead worker within a second.
constexpr absl::Duration kDeathPatience = absl::Seconds(10);
constexpr absl::Duration kReconnectTimeout = absl::Seconds(30);

}  // namespace

absl::StatusOr<std::unique_ptr<PrivateCluster>> PrivateCluster::Start(const v1::ResourcesSpec& resources,
                                                                      const std::string& simulated_block_seconds,
                                                                      const Interrupts& interrupts) {
  auto cluster = absl::WrapUnique(new PrivateCluster(interrupts));
  STAGECOACH_ASSIGN_OR_RETURN(const std::string programs, ProgramFolder());
  STAGECOACH_ASSIGN_OR_RETURN(cluster->directory_, RunDirectory::Make());
  STAGECOACH_ASSIGN_OR_RETURN(cluster->cluster_,
                              LocalCluster::Start({.state_dir = cluster->directory_->path(),
                                                   .programs = programs,
                                                   .num_workers = resources.workers(),
                                                   .threads = resources.threads_per_worker(),
                                                   .device = resources.device(),
                                                   .simulated_block_seconds = simulated_block_seconds,
                                                   .restart_coordinator = true,
                                                   .restart_workers = false},
                                                  kStartTimeout, [&] { return interrupts.count() == 0; }));
  cluster->client_ = std::make_unique<CoordinatorClient>(CoordinatorClient::Options{
      .address = cluster->cluster_->address(), .keep_on = [&] { return interrupts.count() < 2; }});
  return cluster;
}

int PrivateCluster::Run(const v1::JobSpec& spec, JobReport& report) {
  v1::SubmitJobRequest request;
  *request.mutable_spec() = spec;
  absl::StatusOr<std::string> job = client_->SubmitJob(std::move(request));
  if (!job.ok()) return ReportFailure(ServerFailure(job.status()), {});
  job_ = *std::move(job);
  const int code = Follow(report);
  client_.reset();
  if (interrupts_.count() < 2) cluster_->Stop(kStopGrace, [&] { return interrupts_.count() < 2; });
  return code;
}

int PrivateCluster::Follow(JobReport& report) {
  JobFeed feed(*client_, job_, {.reconnect = {.timeout = kReconnectTimeout}});
  const absl::StatusOr<bool> ended = FollowToEnd(feed, report, [&] { return KeepOn(report); });
  const int code = EndOf(ended, feed, report);
  if (code == kExitJobFailed || !ended.ok()) ShowDeaths();
  return code;
}

bool PrivateCluster::KeepOn(JobReport& report) {
  const absl::Duration now = Clock::Real().Now();
  for (LocalCluster::Death& death : cluster_->Poll()) {
    report.OnNote(absl::StrCat(death.name, " (pid ", death.pid, ") ", death.end));
    if (death.name != "coordinator" && !worker_died_) worker_died_ = now;
    deaths_.push_back(std::move(death));
  }
  if (interrupts_.count() > 1) return false;
  if (interrupts_.count() == 1) CancelOnce(report);
  return !worker_died_ || now - *worker_died_ < kDeathPatience;
}

void PrivateCluster::CancelOnce(JobReport& report) {
  if (std::exchange(cancelled_, true)) return;
  report.OnNote("interrupted: ends after the step under way, with a checkpoint; once more to end at once");
  const absl::Status status = client_->CancelJob(job_);
  // FAILED_PRECONDITION: it has just ended by itself.
  if (!status.ok() && !absl::IsFailedPrecondition(status)) {
    report.OnNote(absl::StrCat("cannot cancel the job: ", status.message()));
  }
}

int PrivateCluster::EndOf(const absl::StatusOr<bool>& ended, JobFeed& feed, JobReport& report) {
  if (!ended.ok()) return ReportFailure(LostFailure(ended.status(), job_, feed.status()), {});
  if (*ended) {
    const v1::Job job = DescribeEnded(*client_, feed.status());
    report.OnEnd(job);
    return ExitCodeOf(job.status().state());
  }
  if (interrupts_.count() > 1) {
    report.OnNote("ended at once: nothing was written after the last checkpoint");
    return kExitCancelled;
  }
  report.OnNote(absl::StrCat("the coordinator does not end the job, though ", deaths_.front().name, " is gone"));
  return kExitJobFailed;
}

void PrivateCluster::ShowDeaths() {
  for (const LocalCluster::Death& death : deaths_) {
    std::cerr << "the end of the log of " << death.name << ", which " << death.end << ":\n"
              << cluster_->LogTailOf(death.name);
  }
  if (deaths_.empty()) return;
  directory_->Keep();
  std::cerr << "logs are kept in " << directory_->path() << "/logs\n";
}

}  // namespace stagecoach
