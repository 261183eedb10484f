#include <iostream>
#include <memory>

#include "client/commands/command.h"
#include "client/commands/server_arguments.h"
#include "client/output/exit_codes.h"
#include "common/build_version.h"

namespace stagecoach {
namespace {

struct VersionArguments {
  bool server = false;
  ServerArguments connection;
};

int Version(const VersionArguments& arguments) {
  std::cout << "stagecoach " << BuildVersion() << "\n";
  if (!arguments.server) return kExitOk;
  return AskCoordinator(arguments.connection, {}, [](CoordinatorClient& client) -> Outcome {
    const absl::StatusOr<v1::GetVersionResponse> version = client.GetVersion();
    if (!version.ok()) return version.status();
    std::cout << "coordinator " << version->build_version() << ", protocol " << version->protocol_version() << ", term "
              << version->coordinator_term() << "\n";
    return kExitOk;
  });
}

}  // namespace

void AddVersion(CLI::App& root, Invocation& invocation) {
  auto arguments = std::make_shared<VersionArguments>();
  CLI::App* verb = AddVerb(root, "version", "print the version", "  stagecoach version --server");
  verb->add_flag("--server", arguments->server, "the coordinator's too");
  AddServerOptions(*verb, arguments->connection);
  verb->callback([&invocation, arguments] { invocation.run = [arguments] { return Version(*arguments); }; });
}

}  // namespace stagecoach
