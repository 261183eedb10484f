#ifndef STAGECOACH_CLIENT_COMMANDS_SERVER_ARGUMENTS_H_
#define STAGECOACH_CLIENT_COMMANDS_SERVER_ARGUMENTS_H_

#include <functional>
#include <optional>

#include "CLI/CLI.hpp"
#include "absl/time/time.h"
#include "client/commands/output_arguments.h"
#include "client/contexts/settings.h"
#include "client/coordinator_client/coordinator_client.h"
#include "client/coordinator_client/reconnecting_stream.h"
#include "client/output/error_report.h"

namespace stagecoach {

// Which coordinator a verb asks, and how long it may be gone.
struct ServerArguments {
  SettingFlags flags;
  std::optional<absl::Duration> reconnect_timeout;
};
void AddServerOptions(CLI::App& verb, ServerArguments& arguments);

// What a verb comes to: an exit code, or a failure that is still to be told.
struct Outcome {
  Outcome(int exit_code) : code(exit_code) {}                                              // NOLINT: is one
  Outcome(Failure reason) : code(reason.code), failure(std::move(reason)) {}               // NOLINT
  Outcome(absl::Status coordinators) : Outcome(ServerFailure(std::move(coordinators))) {}  // NOLINT
  int code;
  std::optional<Failure> failure;
};

// Runs `ask` with a client of the coordinator that is meant, and tells its failure. Returns the exit code.
int AskCoordinator(const ServerArguments& server, const OutputArguments& output,
                   const std::function<Outcome(CoordinatorClient&)>& ask);

// For feeds: says once per outage that the connection was lost.
ReconnectOptions Reconnecting(const ServerArguments& server);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_SERVER_ARGUMENTS_H_
