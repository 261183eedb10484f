#include <csignal>
#include <cstring>
#include <iostream>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cluster/supervisor_lock.h"
#include "client/commands/command.h"
#include "client/commands/confirmation.h"
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
constexpr absl::Duration kPoll = absl::Milliseconds(20);

struct DownArguments {
  std::string state_dir;
  bool yes = false;
};

// The one given, or the current context's, or the default.
absl::StatusOr<std::string> StateDirToEnd(const DownArguments& arguments) {
  if (!arguments.state_dir.empty()) return ChooseStateDir(arguments.state_dir);
  const absl::StatusOr<Settings> settings = ResolveSettings({}, ProcessEnvironment());
  if (settings.ok() && !settings->state_dir.value.empty()) return settings->state_dir.value;
  return ChooseStateDir("");
}

int LiveJobs(const std::string& state_dir) {
  const absl::StatusOr<std::string> address = ReadFile(FileSystem::Posix(), state_dir + "/address", 4096);
  if (!address.ok()) return 0;
  CoordinatorClient client({.address = std::string(absl::StripAsciiWhitespace(*address)),
                            .retry_for = absl::ZeroDuration(),
                            .attempt_timeout = absl::Seconds(2)});
  const absl::StatusOr<v1::ListJobsResponse> jobs = client.ListJobs();
  if (!jobs.ok()) return 0;
  int live = 0;
  for (const v1::Job& job : jobs->jobs()) live += IsTerminal(job.status().state()) ? 0 : 1;
  return live;
}

bool MayEnd(const std::string& state_dir, bool yes) {
  const int live = LiveJobs(state_dir);
  if (live == 0) return true;
  return Confirm(absl::StrCat(live, " jobs have not ended. End the cluster in ", state_dir, "?"), yes);
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
    if (!MayEnd(*state_dir, arguments.yes)) return kExitError;
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
                           "  stagecoach down --state-dir DIR");
  verb->add_option("--state-dir", arguments->state_dir, "as it was given to up; default: the current context's")
      ->type_name("DIR");
  verb->add_flag("-y,--yes", arguments->yes, "do not ask, though jobs have not ended");
  verb->callback([&invocation, arguments] { invocation.run = [arguments] { return Down(*arguments); }; });
}

}  // namespace stagecoach
