// stagecoach-coordinator: the control plane as a daemon. See server.h.

#include <pthread.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <iostream>
#include <optional>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/build_version.h"
#include "common/log.h"
#include "common/protocol_version.h"
#include "common/status_macros.h"
#include "coordinator/server.h"
#include "coordinator/service/library_log.h"

namespace stagecoach {
namespace {

constexpr int kExitOk = 0;
constexpr int kExitError = 1;
constexpr int kExitUsage = 2;

constexpr absl::Duration kLongestDuration = absl::Hours(24);

struct Arguments {
  std::string state_directory;
  std::string listen = "127.0.0.1:7070";
  bool insecure = false;
  std::string metrics_listen;  // empty: nowhere
  std::string health_listen;   // likewise
  std::string address_file;
  FleetOptions fleet;
  LogOptions log;
};

// "3s", "250ms", "1m30s": longer than nothing, and not for ever.
void AddDuration(CLI::App& app, const std::string& name, absl::Duration& value, const std::string& help) {
  app.add_option_function<std::string>(
         name,
         [name, &value](const std::string& text) {
           const bool good =
               absl::ParseDuration(text, &value) && value > absl::ZeroDuration() && value <= kLongestDuration;
           if (!good) throw CLI::ValidationError(name, "expected a duration such as 3s or 250ms, not \"" + text + "\"");
         },
         help)
      ->default_str(absl::FormatDuration(value));
}

void AddOptions(CLI::App& app, Arguments& arguments) {
  app.option_defaults()->take_last();  // of an option that is given twice
  app.add_option("--state-dir", arguments.state_directory, "where the journal is; made when it does not exist")
      ->required()
      ->envname("STAGECOACH_STATE_DIR");
  app.add_option("--listen", arguments.listen, "HOST:PORT (port 0: any), [IPV6]:PORT or unix:PATH")
      ->envname("STAGECOACH_LISTEN")
      ->capture_default_str();
  app.add_flag("--insecure", arguments.insecure, "let others than this machine's processes in, without credentials");
  app.add_option("--metrics-listen", arguments.metrics_listen, "HOST:PORT for Prometheus (port 0: any); default: none");
  app.add_option("--health-listen", arguments.health_listen,
                 "HOST:PORT for probes without credentials (grpc.health.v1); default: none");
  app.add_option("--address-file", arguments.address_file, "where to write the address, one line, once it is served");
  AddDuration(app, "--lease", arguments.fleet.lease, "how long a worker may act after its last heartbeat");
  AddDuration(app, "--heartbeat-interval", arguments.fleet.heartbeat_interval, "how often workers send one");
  AddDuration(app, "--reattach-timeout", arguments.fleet.reattach_timeout,
              "after a restart, how long jobs wait for workers that were there before");
  AddDuration(app, "--checkpoint-timeout", arguments.fleet.checkpoint_timeout,
              "how long a checkpoint behind training may take; large ones have a second for each 100 MB");
  app.add_option("--keep-jobs", arguments.fleet.keep_jobs, "how many jobs that have ended are remembered, the newest")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--log-level", arguments.log.level, "least severe lines that are logged")
      ->check(CLI::IsMember(kLogLevels))
      ->envname("STAGECOACH_LOG")
      ->capture_default_str();
  app.add_option("--log-format", arguments.log.format, "to standard error")
      ->check(CLI::IsMember(kLogFormats))
      ->capture_default_str();
  app.set_version_flag("--version",
                       absl::StrCat("stagecoach-coordinator ", BuildVersion(), " (protocol ", kProtocolVersion, ")"));
}

int Fail(const absl::Status& status, int code) {
  std::cerr << "stagecoach-coordinator: " << status.message() << "\n";
  return code;
}

// Where the daemon listens.
struct Listeners {
  ListenAddress service;
  std::optional<ListenAddress> metrics;
  std::optional<ListenAddress> health;
};

absl::StatusOr<Listeners> CheckArguments(const Arguments& arguments) {
  if (arguments.fleet.lease < 2 * arguments.fleet.heartbeat_interval) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--lease ", absl::FormatDuration(arguments.fleet.lease), " is less than two of --heartbeat-interval ",
        absl::FormatDuration(arguments.fleet.heartbeat_interval), ": one late heartbeat would end it"));
  }
  const bool insecure = arguments.insecure;
  const absl::StatusOr<ListenAddress> address = ParseListenAddress(arguments.listen);
  if (!address.ok()) return WithContext(address.status(), "--listen");
  STAGECOACH_RETURN_IF_ERROR(CheckListenIsAllowed(*address, insecure));
  Listeners listeners{*address, std::nullopt, std::nullopt};
  STAGECOACH_ASSIGN_OR_RETURN(listeners.metrics, ParseReadersAddress(arguments.metrics_listen, insecure, "metrics"));
  STAGECOACH_ASSIGN_OR_RETURN(listeners.health, ParseReadersAddress(arguments.health_listen, insecure, "health"));
  return listeners;
}

// Each connection is a descriptor, and a coordinator that has none left cannot write its journal.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Of this process: blocked in all threads, so that WaitForEnd gets them.
sigset_t BlockEndSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

int Serve(const Arguments& arguments, const Listeners& listeners) {
  const sigset_t signals = BlockEndSignals();
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file's limit is an error of the write, as a full disk is
  RaiseDescriptorLimit();
  RouteLibraryLogs();
  std::atomic<bool> halted = false;
  const auto on_halt = [&halted, self = pthread_self()](const absl::Status&) {
    halted = true;
    pthread_kill(self, SIGTERM);
  };
  const absl::StatusOr<std::unique_ptr<Server>> server = Server::Start({.state_directory = arguments.state_directory,
                                                                        .listen = listeners.service,
                                                                        .address_file = arguments.address_file,
                                                                        .fleet = arguments.fleet,
                                                                        .metrics = listeners.metrics,
                                                                        .health = listeners.health,
                                                                        .on_halt = on_halt});
  if (!server.ok()) return Fail(server.status(), kExitError);
  int signal = 0;
  sigwait(&signals, &signal);
  if (!halted) spdlog::info("{}: stopping", signal == SIGINT ? "SIGINT" : "SIGTERM");
  // Whoever is in a hurry asks twice.
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  (*server)->Stop();
  return halted ? kExitError : kExitOk;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Plans jobs, leads workers through their steps, and keeps the journal.\n\n"
      "  stagecoach-coordinator --state-dir /var/lib/stagecoach\n"
      "  stagecoach-coordinator --state-dir state --listen unix:state/socket\n"
      "  stagecoach-coordinator --state-dir state --listen 127.0.0.1:0 --address-file state/address\n",
      "stagecoach-coordinator");
  Arguments arguments;
  AddOptions(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error, std::cout, std::cerr) == 0 ? kExitOk : kExitUsage;
  }
  if (const absl::Status status = StartLog("coordinator", arguments.log); !status.ok()) return Fail(status, kExitUsage);
  const absl::StatusOr<Listeners> listeners = CheckArguments(arguments);
  if (!listeners.ok()) return Fail(listeners.status(), kExitUsage);
  return Serve(arguments, *listeners);
}

}  // namespace
}  // namespace stagecoach

int main(int argc, char** argv) { return stagecoach::Main(argc, argv); }
