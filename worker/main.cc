// stagecoach-worker: one device of a pipeline as a daemon. See server.h.

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/build_version.h"
#include "common/listen_address.h"
#include "common/log.h"
#include "common/protocol_version.h"
#include "common/simulated_device.h"
#include "common/size_text.h"
#include "common/status_macros.h"
#include "worker/server.h"

namespace stagecoach {
namespace {

constexpr int kExitOk = 0;
constexpr int kExitError = 1;
constexpr int kExitUsage = 2;

struct Arguments {
  std::string coordinator;
  bool insecure = false;
  std::string metrics_listen;           // empty: nowhere
  std::string health_listen;            // likewise
  std::string simulated_block_seconds;  // empty: the device is another one
  ServerOptions server;
  LogOptions log;
};

// Names are shown in tables and used as file names.
std::string CheckWorkerName(const std::string& name) {
  const auto is_allowed = [](unsigned char c) { return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_'; };
  if (!name.empty() && name.size() <= 200 && std::all_of(name.begin(), name.end(), is_allowed)) return "";
  return "expected letters, digits, '.', '-' and '_', at most 200";
}

// "30s", "250ms", "1m30s": longer than nothing.
absl::Duration ParseDurationOption(const std::string& name, const std::string& text) {
  absl::Duration value;
  const bool good = absl::ParseDuration(text, &value) && value > absl::ZeroDuration();
  if (!good) throw CLI::ValidationError(name, "expected a duration such as 30s or 250ms, not \"" + text + "\"");
  return value;
}

template <typename T>
CLI::Option* AddDuration(CLI::App& app, const std::string& name, T& value, const std::string& help) {
  return app.add_option_function<std::string>(
      name, [name, &value](const std::string& text) { value = ParseDurationOption(name, text); }, help);
}

void AddOptions(CLI::App& app, Arguments& arguments) {
  ServerOptions& server = arguments.server;
  app.add_option("--coordinator", arguments.coordinator, "HOST:PORT, [IPV6]:PORT or unix:PATH")
      ->required()
      ->envname("STAGECOACH_ADDRESS");
  app.add_flag("--insecure", arguments.insecure, "use the network, without credentials, though others can reach it");
  app.add_option("--metrics-listen", arguments.metrics_listen, "HOST:PORT for Prometheus (port 0: any); default: none");
  app.add_option("--health-listen", arguments.health_listen,
                 "HOST:PORT for probes without credentials (grpc.health.v1); default: none");
  app.add_option("--name", server.name, "unique among the workers; default: the host's with a random suffix")
      ->check([](const std::string& name) { return CheckWorkerName(name); });
  app.add_option("--device", server.device, "cpu, reference (float64, slow) or simulated (computes nothing)")
      ->capture_default_str();
  app.add_option("--simulated-block-seconds", arguments.simulated_block_seconds,
                 "F,I,W: what a transformer block's forward, backward for input and backward for weight take on device "
                 "simulated")
      ->type_name("F,I,W");
  app.add_option("--transport", server.transport,
                 "how tensors go from worker to worker: ucx, or within one host ucx-shm or ucx-cma")
      ->capture_default_str();
  app.add_option("--network-devices", server.transport_settings.network_devices,
                 "interfaces for tensors, of a trusted network: eth0,lo or all")
      ->capture_default_str();
  app.add_option("--threads", server.max_threads, "that a job may use at most; default: as many as the machine has")
      ->check(CLI::Range(1, 1024));
  app.add_option("--memory", server.memory_bytes, "that a job may use at most: 8GiB; default: all that is free now")
      ->transform(CLI::AsSizeValue(false))
      ->transform(CLI::Validator([](const std::string& text) { return SizeProblem(text); }, ""));  // before the other
  AddDuration(app, "--leave-timeout", server.leave_timeout, "after SIGTERM, how long a step may still take")
      ->default_str(absl::FormatDuration(server.leave_timeout));
  AddDuration(app, "--dial-timeout", server.dial_timeout, "end after so long without a coordinator; default: never");
  AddDuration(app, "--orphan-timeout", server.orphan_timeout,
              "drop a job's state after so long without a coordinator; default: as the coordinator said, or 10m");
  AddDuration(app, "--transfer-timeout", server.transfer_timeout, "longest wait for one tensor from a peer")
      ->default_str(absl::FormatDuration(server.transfer_timeout));
  app.add_option("--log-level", arguments.log.level, "least severe lines that are logged")
      ->check(CLI::IsMember(kLogLevels))
      ->envname("STAGECOACH_LOG")
      ->capture_default_str();
  app.add_option("--log-format", arguments.log.format, "to standard error")
      ->check(CLI::IsMember(kLogFormats))
      ->capture_default_str();
  app.set_version_flag("--version",
                       absl::StrCat("stagecoach-worker ", BuildVersion(), " (protocol ", kProtocolVersion, ")"));
}

int Fail(const absl::Status& status, int code) {
  std::cerr << "stagecoach-worker: " << status.message() << "\n";
  return code;
}

// A worker does what the coordinator says, and takes tensors from whoever reaches its port.
absl::Status CheckNetworkIsAllowed(const Arguments& arguments, const ListenAddress& coordinator) {
  STAGECOACH_RETURN_IF_ERROR(CheckDialIsAllowed(coordinator, arguments.insecure));
  const std::string& devices = arguments.server.transport_settings.network_devices;
  if (arguments.insecure || devices == TransportSettings().network_devices) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "refusing to receive tensors at ", devices, ": there is no authentication, so whoever reaches that network can ",
      "write into them. Stay with --network-devices ", TransportSettings().network_devices,
      ", or, when the network lets in only who may do that, add --insecure"));
}

absl::Status ChooseListeners(Arguments& arguments) {
  const bool insecure = arguments.insecure;
  ServerOptions& server = arguments.server;
  STAGECOACH_ASSIGN_OR_RETURN(server.metrics, ParseReadersAddress(arguments.metrics_listen, insecure, "metrics"));
  STAGECOACH_ASSIGN_OR_RETURN(server.health, ParseReadersAddress(arguments.health_listen, insecure, "health"));
  return absl::OkStatus();
}

// Several workers share the cores of a machine: threads that spin at the barriers of one would take them from another.
// The OpenMP runtime reads the variable when it is loaded, which is before main: hence once more from the start.
void MakeOpenMpWaitPassively(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  std::array<char, 4096> program{};
  if (readlink("/proc/self/exe", program.data(), program.size() - 1) <= 0) return;
  setenv("OMP_WAIT_POLICY", "passive", 0);
  execv(program.data(), argv);  // does not return; where it cannot, the worker runs as it is
}

// All that is about a job also goes to the job's log, whatever of it the process's own shows.
std::shared_ptr<JobLog> AddJobLog() {
  auto log = std::make_shared<JobLog>();
  spdlog::logger& logger = *spdlog::default_logger();
  for (const spdlog::sink_ptr& sink : logger.sinks()) sink->set_level(logger.level());
  log->set_level(std::min(logger.level(), spdlog::level::info));
  logger.set_level(std::min(logger.level(), spdlog::level::info));
  logger.sinks().push_back(log);
  return log;
}

constexpr int kEndedSignal = SIGUSR1;

// Blocked in all threads, so that Run gets them.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, kEndedSignal}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

// From now on SIGTERM and SIGINT end the process at once.
void UnblockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

int Run(ServerOptions options) {
  const sigset_t signals = BlockSignals();
  std::signal(SIGPIPE, SIG_IGN);
  options.on_end = [self = pthread_self()] { pthread_kill(self, kEndedSignal); };
  const absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(options);
  if (!server.ok()) {
    const bool is_usage = absl::IsNotFound(server.status()) || absl::IsInvalidArgument(server.status());
    return Fail(server.status(), is_usage ? kExitUsage : kExitError);
  }
  int signal = 0;
  sigwait(&signals, &signal);
  // Whoever is in a hurry asks twice, or the device does not come to an end.
  UnblockSignals();
  if (signal != kEndedSignal) (*server)->Leave(signal == SIGINT ? "SIGINT" : "SIGTERM");
  const std::optional<absl::Status> ended = (*server)->Wait(absl::InfiniteDuration());
  return ended->ok() ? kExitOk : Fail(*ended, kExitError);
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Runs the stages of jobs that a coordinator gives it, on one device.\n\n"
      "  stagecoach-worker --coordinator 127.0.0.1:7070\n"
      "  stagecoach-worker --coordinator unix:state/socket --name worker-0 --threads 4 --memory 8GiB\n",
      "stagecoach-worker");
  Arguments arguments;
  AddOptions(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error, std::cout, std::cerr) == 0 ? kExitOk : kExitUsage;
  }
  if (const absl::Status status = StartLog("worker", arguments.log); !status.ok()) return Fail(status, kExitUsage);
  const absl::StatusOr<ListenAddress> coordinator = ParseListenAddress(arguments.coordinator);
  if (!coordinator.ok()) return Fail(coordinator.status(), kExitUsage);
  if (const absl::Status status = CheckNetworkIsAllowed(arguments, *coordinator); !status.ok()) {
    return Fail(status, kExitUsage);
  }
  if (const absl::Status status = ChooseListeners(arguments); !status.ok()) return Fail(status, kExitUsage);
  const auto costs = SimulatedCostsOf(arguments.server.device, arguments.simulated_block_seconds);
  if (!costs.ok()) return Fail(costs.status(), kExitUsage);
  arguments.server.simulated_costs = *costs;
  MakeOpenMpWaitPassively(argv);
  arguments.server.coordinator = *coordinator;
  arguments.server.log = AddJobLog();
  return Run(std::move(arguments.server));
}

}  // namespace
}  // namespace stagecoach

int main(int argc, char** argv) { return stagecoach::Main(argc, argv); }
