#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <memory>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cluster/detached_process.h"
#include "client/cluster/local_cluster.h"
#include "client/cluster/log_file.h"
#include "client/cluster/supervisor_lock.h"
#include "client/commands/command.h"
#include "client/commands/interrupts.h"
#include "client/commands/simulated_argument.h"
#include "client/commands/state_dir.h"
#include "client/contexts/settings.h"
#include "client/output/error_report.h"
#include "common/simulated_device.h"
#include "common/status_macros.h"
#include "spdlog/spdlog.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kStartTimeout = absl::Minutes(1);
constexpr absl::Duration kStopGrace = absl::Seconds(15);  // more than the workers' own
constexpr absl::Duration kPoll = absl::Milliseconds(50);
constexpr uint64_t kMaxLogBytes = 1 << 20;

struct UpArguments {
  uint32_t workers = 0;
  uint32_t threads = 0;
  std::string state_dir;
  std::string device = "cpu";
  std::string simulated_block_seconds;
  std::string restart = "always";
  bool detach = false;
  bool report = false;  // hidden: this is the supervisor of an `up -d`, which waits for a report
};

LocalCluster::Options ClusterOptions(const UpArguments& arguments, const std::string& state_dir,
                                     const std::string& programs) {
  const uint32_t cores = std::max(1u, std::thread::hardware_concurrency());
  const uint32_t workers = arguments.workers > 0 ? arguments.workers : cores;
  const bool restart = arguments.restart == "always";
  return {.state_dir = state_dir,
          .programs = programs,
          .num_workers = workers,
          .threads = arguments.threads > 0 ? arguments.threads : std::max(1u, cores / workers),
          .device = arguments.device,
          .simulated_block_seconds = arguments.simulated_block_seconds,
          .restart_coordinator = restart,
          .restart_workers = restart};
}

std::string SupervisorLog(const std::string& state_dir) { return state_dir + "/logs/supervisor.log"; }

// Until it is told to stop.
void Supervise(LocalCluster& cluster, const Interrupts& interrupts, const std::string& own_log) {
  while (interrupts.count() == 0) {
    for (const LocalCluster::Death& death : cluster.Poll()) {
      spdlog::warn("{} (pid {}) {}", death.name, death.pid, death.end);
    }
    if (!own_log.empty()) LimitLog(own_log, kMaxLogBytes);
    absl::SleepFor(kPoll);
  }
  cluster.Stop(kStopGrace, [&] { return interrupts.count() < 2; });
}

// What to say about a cluster that is up.
std::string Summary(const std::string& context, const std::string& address, const LocalCluster::Options& options) {
  const absl::string_view simulated = options.device == kSimulatedDevice ? " simulated" : "";
  return absl::StrCat("local cluster of ", options.num_workers, simulated, " workers in ", options.state_dir, "\n",
                      "coordinator at ", address, "; context ", context, " is the current one\n");
}

// Runs the cluster. `on_up` is told once it is up.
absl::Status RunCluster(const LocalCluster::Options& options, const std::string& own_log,
                        const std::function<void(const std::string& summary)>& on_up) {
  STAGECOACH_ASSIGN_OR_RETURN(const FileLock lock, LockStateDir(options.state_dir));
  const Interrupts interrupts(Interrupts::Second::kCounts);
  STAGECOACH_ASSIGN_OR_RETURN(const std::unique_ptr<LocalCluster> cluster,
                              LocalCluster::Start(options, kStartTimeout, [&] { return interrupts.count() == 0; }));
  STAGECOACH_ASSIGN_OR_RETURN(const std::string context, UseLocalContext(options.state_dir, cluster->address()));
  on_up(Summary(context, cluster->address(), options));
  Supervise(*cluster, interrupts, own_log);
  return absl::OkStatus();
}

ExitCode CodeOf(const absl::Status& status) {
  if (status.ok()) return kExitOk;
  if (absl::IsCancelled(status)) return kExitInterrupted;
  return absl::IsAlreadyExists(status) ? kExitConflict : kExitError;
}

void WarnOfEnvironment() {
  if (ProcessEnvironment()("STAGECOACH_ADDRESS")) {
    std::cerr << "STAGECOACH_ADDRESS is set and comes before the current context; unset it to reach this cluster\n";
  }
}

int RunInForeground(const LocalCluster::Options& options) {
  const absl::Status status = RunCluster(options, "", [](const std::string& summary) {
    std::cerr << summary << "Ctrl-C ends it\n";
    WarnOfEnvironment();
  });
  return status.ok() ? kExitOk : ReportFailure({.code = CodeOf(status), .status = status}, {});
}

// The other end of RunDetached's pipe: "ok" and the summary, or the exit code and the message.
int RunAsSupervisor(const LocalCluster::Options& options) {
  constexpr int kReport = DetachedProcess::kReportDescriptor;
  fcntl(kReport, F_SETFD, FD_CLOEXEC);
  const auto say = [](const std::string& text) {
    (void)!write(kReport, text.data(), text.size());
    close(kReport);
  };
  bool up = false;
  const absl::Status status = RunCluster(options, SupervisorLog(options.state_dir), [&](const std::string& summary) {
    up = true;
    say("ok\n" + summary);
  });
  if (status.ok()) return kExitOk;
  if (!up) say(absl::StrCat(static_cast<int>(CodeOf(status)), "\n", status.message()));
  return CodeOf(status);
}

std::vector<std::string> SupervisorArguments(const UpArguments& arguments, const LocalCluster::Options& options) {
  std::vector<std::string> words = {"up", "--report"};
  const auto add = [&words](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  add("--workers", absl::StrCat(options.num_workers));
  add("--threads", absl::StrCat(options.threads));
  add("--state-dir", options.state_dir);
  add("--device", options.device);
  add("--simulated-block-seconds", options.simulated_block_seconds);
  add("--restart", arguments.restart);
  return words;
}

int RunDetached(const UpArguments& arguments, const LocalCluster::Options& options) {
  const std::string log = SupervisorLog(options.state_dir);
  if (const absl::Status status = MakePrivateDirectory(DirectoryOf(log)); !status.ok()) {
    return ReportFailure({.code = kExitError, .status = status}, {});
  }
  const Interrupts interrupts(Interrupts::Second::kCounts);
  absl::StatusOr<DetachedProcess> process = DetachedProcess::Start(SupervisorArguments(arguments, options), log);
  if (!process.ok()) return ReportFailure({.code = kExitError, .status = process.status()}, {});
  std::optional<std::string> report;
  for (bool stopped = false; !(report = process->ReadReport(absl::Milliseconds(100)));) {
    if (interrupts.count() > 0 && !std::exchange(stopped, true)) kill(process->pid(), SIGTERM);
  }
  const size_t line = report->find('\n');
  if (line == std::string::npos) {
    const absl::Status status =
        absl::InternalError(absl::StrCat("the supervisor has ended; its log says:\n", LogTail(log, 20)));
    return ReportFailure({.code = kExitError, .status = status}, {});
  }
  const std::string head = report->substr(0, line);
  const std::string text = report->substr(line + 1);
  if (head != "ok") {
    std::cerr << "stagecoach: " << text << "\n";
    int code = kExitError;
    return absl::SimpleAtoi(head, &code) ? code : kExitError;
  }
  std::cerr << text << "it ends with: stagecoach down\n";
  WarnOfEnvironment();
  return kExitOk;
}

int Up(const UpArguments& arguments) {
  const absl::Status costs = SimulatedCostsOf(arguments.device, arguments.simulated_block_seconds).status();
  if (!costs.ok()) return ReportFailure({.code = kExitUsage, .status = costs}, {});
  const absl::StatusOr<std::string> state_dir = ChooseStateDir(arguments.state_dir);
  const absl::StatusOr<std::string> programs = ProgramFolder();
  absl::Status status = state_dir.ok() ? programs.status() : state_dir.status();
  if (status.ok()) status = MakePrivateDirectory(*state_dir);
  if (!status.ok()) return ReportFailure({.code = kExitError, .status = status}, {});
  const LocalCluster::Options options = ClusterOptions(arguments, *state_dir, *programs);
  if (arguments.report) return RunAsSupervisor(options);
  return arguments.detach ? RunDetached(arguments, options) : RunInForeground(options);
}

}  // namespace

void AddUp(CLI::App& root, Invocation& invocation) {
  auto arguments = std::make_shared<UpArguments>();
  CLI::App* verb = AddVerb(root, "up", "run a cluster on this machine: a coordinator and N workers",
                           "  stagecoach up --workers 4 -d      # returns when all are registered\n"
                           "  stagecoach submit examples/tiny.yaml --follow\n"
                           "  stagecoach down");
  verb->add_option("--workers", arguments->workers, "how many; default: one per core")->check(CLI::Range(1, 1024));
  verb->add_option("--threads,--threads-per-worker", arguments->threads, "of each worker; default: cores / workers")
      ->check(CLI::Range(1, 1024));
  verb->add_option("--state-dir", arguments->state_dir,
                   "journal, logs and address; default: stagecoach/local in XDG_STATE_HOME or ~/.local/state")
      ->type_name("DIR");
  verb->add_option("--device", arguments->device)
      ->check(CLI::IsMember({"cpu", "reference", "simulated"}))
      ->capture_default_str();
  AddSimulatedBlockSeconds(*verb, arguments->simulated_block_seconds);
  verb->add_option("--restart", arguments->restart, "a coordinator or worker that has died")
      ->check(CLI::IsMember({"always", "never"}))
      ->capture_default_str();
  verb->add_flag("-d,--detach", arguments->detach, "in the background");
  verb->add_flag("--report", arguments->report)->group("");
  verb->callback([&invocation, arguments] { invocation.run = [arguments] { return Up(*arguments); }; });
}

}  // namespace stagecoach
