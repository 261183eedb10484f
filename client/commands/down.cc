#include <cerrno>
#include <csignal>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/cluster/supervisor_lock.h"
#include "client/commands/command.h"
#include "client/commands/confirmation.h"
#include "client/commands/duration_option.h"
#include "client/commands/state_dir.h"
#include "client/contexts/settings.h"
#include "client/coordinator_client/coordinator_client.h"
#include "client/coordinator_client/job_states.h"
#include "client/output/error_report.h"
#include "common/clock.h"
#include "common/file_system.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

// A supervisor gives its children fifteen seconds before it ends them by force.
constexpr absl::Duration kPatience = absl::Seconds(40);
// For jobs to end their steps and to write their checkpoints.
constexpr absl::Duration kDefaultGrace = absl::Minutes(1);
constexpr absl::Duration kAttemptTimeout = absl::Seconds(2);
constexpr absl::Duration kPoll = absl::Milliseconds(20);

struct DownArguments {
  std::string state_dir;
  bool force = false;
  std::optional<absl::Duration> grace;
};

// The one given, or the current context's, or the default.
absl::StatusOr<std::string> StateDirToEnd(const DownArguments& arguments) {
  if (!arguments.state_dir.empty()) return ChooseStateDir(arguments.state_dir);
  const absl::StatusOr<Settings> settings = ResolveSettings({}, ProcessEnvironment());
  if (settings.ok() && !settings->state_dir.value.empty()) return settings->state_dir.value;
  return ChooseStateDir("");
}

// Names of those that have not ended. A coordinator that does not answer has none that could be saved.
std::vector<std::string> LiveJobs(CoordinatorClient& client) {
  std::vector<std::string> live;
  const absl::StatusOr<v1::ListJobsResponse> jobs = client.ListJobs();
  if (!jobs.ok()) return live;
  for (const v1::Job& job : jobs->jobs()) {
    if (!IsTerminal(job.status().state())) live.push_back(job.status().job());
  }
  return live;
}

// Each ends after the step under way, with a checkpoint. Those that take longer than `grace` are lost with their
// workers.
void CancelAll(CoordinatorClient& client, std::vector<std::string> jobs, absl::Duration grace) {
  std::cerr << "cancelling " << absl::StrJoin(jobs, ", ") << "\n";
  for (const std::string& job : jobs) {
    const absl::Status status = client.CancelJob(job);
    // FAILED_PRECONDITION: it has just ended by itself.
    if (!status.ok() && !absl::IsFailedPrecondition(status)) std::cerr << job << ": " << status.message() << "\n";
  }
  const absl::Duration deadline = Clock::Real().Now() + grace;
  while (!(jobs = LiveJobs(client)).empty() && Clock::Real().Now() < deadline) absl::SleepFor(kPoll);
  if (jobs.empty()) return;
  std::cerr << "not cancelled within " << absl::FormatDuration(grace) << ", and lost: " << absl::StrJoin(jobs, ", ")
            << "\n";
}

// ABORTED: a person does not want to. FAILED_PRECONDITION: there are jobs that have not ended.
absl::Status EndJobs(const std::string& state_dir, const DownArguments& arguments) {
  const absl::StatusOr<std::string> address = ReadFile(FileSystem::Posix(), state_dir + "/address", 4096);
  if (!address.ok()) return absl::OkStatus();
  CoordinatorClient client({.address = std::string(absl::StripAsciiWhitespace(*address)),
                            .retry_for = absl::ZeroDuration(),
                            .attempt_timeout = kAttemptTimeout});
  std::vector<std::string> live = LiveJobs(client);
  if (live.empty()) return absl::OkStatus();
  const std::string names = absl::StrJoin(live, ", ");
  if (!arguments.force && !PersonIsThere()) {
    return absl::FailedPreconditionError(absl::StrCat("jobs in ", state_dir, " have not ended: ", names));
  }
  if (!Confirm(absl::StrCat("Cancel ", names, ", and end the cluster in ", state_dir, "?"), arguments.force)) {
    return absl::AbortedError("nothing was done");
  }
  CancelAll(client, std::move(live), arguments.grace.value_or(kDefaultGrace));
  return absl::OkStatus();
}

// Until the supervisor is gone; its children go before it, or with it.
absl::Status EndSupervisor(const std::string& state_dir) {
  const Clock& clock = Clock::Real();
  const absl::Duration force_at = clock.Now() + kPatience;
  pid_t told = 0;
  for (bool forced = false;;) {
    STAGECOACH_ASSIGN_OR_RETURN(const Supervisor supervisor, FindSupervisor(state_dir));
    if (!supervisor.runs) return absl::OkStatus();
    const bool force = !forced && clock.Now() >= force_at;
    if (supervisor.pid != 0 && (supervisor.pid != told || force)) {
      if (kill(supervisor.pid, force ? SIGKILL : SIGTERM) != 0 && errno != ESRCH) {
        return absl::ErrnoToStatus(errno, absl::StrCat("cannot end the supervisor, pid ", supervisor.pid));
      }
      told = supervisor.pid;
      forced = force;
    }
    if (clock.Now() >= force_at + kPatience) {
      return absl::DeadlineExceededError(absl::StrCat("the supervisor, pid ", supervisor.pid, ", does not end"));
    }
    absl::SleepFor(kPoll);
  }
}

int Down(const DownArguments& arguments) {
  const absl::StatusOr<std::string> state_dir = StateDirToEnd(arguments);
  if (!state_dir.ok()) return ReportFailure({.code = kExitError, .status = state_dir.status()}, {});
  const absl::StatusOr<Supervisor> supervisor = FindSupervisor(*state_dir);
  if (!supervisor.ok()) return ReportFailure({.code = kExitError, .status = supervisor.status()}, {});
  if (!supervisor->known) {
    const absl::Status status = absl::NotFoundError(absl::StrCat("there has been no cluster in ", *state_dir));
    return ReportFailure({.code = kExitNotFound, .status = status}, {});
  }
  if (!supervisor->runs) {
    std::cerr << "no cluster runs in " << *state_dir << "\n";
  } else {
    const absl::Status jobs = EndJobs(*state_dir, arguments);
    if (absl::IsAborted(jobs)) return kExitError;
    if (!jobs.ok()) {
      return ReportFailure({.code = kExitConflict,
                            .status = jobs,
                            .hint = "wait for them, or cancel them and end the cluster: stagecoach down --force"},
                           {});
    }
    if (const absl::Status status = EndSupervisor(*state_dir); !status.ok()) {
      return ReportFailure({.code = kExitError, .status = status}, {});
    }
  }
  if (const absl::Status status = ForgetLocalContext(*state_dir); !status.ok()) {
    return ReportFailure({.code = kExitError, .status = status}, {});
  }
  return kExitOk;
}

}  // namespace

void AddDown(CLI::App& root, Invocation& invocation) {
  auto arguments = std::make_shared<DownArguments>();
  CLI::App* verb = AddVerb(root, "down", "end the local cluster, and wait until it has ended",
                           "  stagecoach down\n"
                           "  stagecoach down --state-dir DIR\n"
                           "  stagecoach down --force           # also when jobs have not ended: they are cancelled");
  verb->add_option("--state-dir", arguments->state_dir, "as it was given to up; default: the current context's")
      ->type_name("DIR");
  verb->add_flag("-f,--force,-y,--yes", arguments->force, "cancel jobs that have not ended, without asking");
  AddDurationOption(*verb, "--grace", arguments->grace, "how long they may take for their checkpoints; default: 1m");
  verb->callback([&invocation, arguments] { invocation.run = [arguments] { return Down(*arguments); }; });
}

}  // namespace stagecoach
