#include "client/commands/server_arguments.h"

#include <iostream>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cluster/supervisor_lock.h"
#include "client/commands/duration_option.h"

namespace stagecoach {
namespace {

// A command that cannot reach anything should say so soon; a follower is patient with a coordinator that restarts.
constexpr absl::Duration kAskTimeout = absl::Seconds(10);
constexpr absl::Duration kFollowTimeout = absl::Seconds(60);

std::string RandomId() {
  std::random_device random;
  return absl::StrFormat("%08x%08x", random(), random());
}

// Of a context that is a local cluster: nobody runs it, so that there is nothing to wait for.
bool IsDown(const Settings& settings) {
  if (settings.state_dir.value.empty()) return false;
  const absl::StatusOr<Supervisor> supervisor = FindSupervisor(settings.state_dir.value);
  return supervisor.ok() && !supervisor->runs;
}

std::string UnreachableHint(const Settings& settings) {
  if (IsDown(settings)) {
    const bool is_default = settings.context.value == kLocalContext;
    return absl::StrCat("no cluster runs in ", settings.state_dir.value, "; start one with: stagecoach up",
                        is_default ? "" : " --state-dir ", is_default ? "" : settings.state_dir.value);
  }
  return absl::StrCat("the address is from ", settings.address.origin, "; see: stagecoach config view --show-origin");
}

}  // namespace

void AddServerOptions(CLI::App& verb, ServerArguments& arguments) {
  verb.add_option("--context", arguments.flags.context, "a coordinator by its name in the context file")
      ->type_name("CONTEXT");
  verb.add_option("--address", arguments.flags.address, "a coordinator: host:port or unix:/path")->type_name("ADDRESS");
  AddDurationOption(verb, "--reconnect-timeout", arguments.reconnect_timeout,
                    "how long a coordinator may be gone; default 60s while following, else 10s");
}

int AskCoordinator(const ServerArguments& server, const OutputArguments& output,
                   const std::function<Outcome(CoordinatorClient&)>& ask) {
  ErrorStyle style{.json = output.is_json()};
  const absl::StatusOr<Settings> settings = ResolveSettings(server.flags, ProcessEnvironment());
  if (!settings.ok()) return ReportFailure({.code = kExitUsage, .status = settings.status()}, style);
  style.request_id = RandomId();
  const absl::Duration patience = IsDown(*settings) ? absl::ZeroDuration() : kAskTimeout;
  const absl::Duration retry_for = server.reconnect_timeout.value_or(patience);
  CoordinatorClient client({.address = settings->address.value,
                            .retry_for = retry_for,
                            .request_id = style.request_id,
                            .on_outage = [&](const absl::Status&) {
                              std::cerr << "the coordinator at " << settings->address.value
                                        << " does not answer; trying for " << absl::FormatDuration(retry_for) << "\n";
                            }});
  Outcome outcome = ask(client);
  if (!outcome.failure) return outcome.code;
  if (outcome.code == kExitUnreachable && outcome.failure->hint.empty()) {
    outcome.failure->hint = UnreachableHint(*settings);
  }
  return ReportFailure(*outcome.failure, style);
}

ReconnectOptions Reconnecting(const ServerArguments& server) {
  const absl::Duration timeout = server.reconnect_timeout.value_or(kFollowTimeout);
  return {.timeout = timeout, .on_outage = [timeout](const absl::Status& why) {
            std::cerr << "connection to the coordinator lost (" << why.message() << "); reconnecting for "
                      << absl::FormatDuration(timeout) << "\n";
          }};
}

}  // namespace stagecoach
