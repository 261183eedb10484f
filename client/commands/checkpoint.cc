#include "formats/checkpoint.h"

#include <iostream>
#include <memory>
#include <string>

#include "client/commands/command.h"
#include "client/output/exit_codes.h"
#include "common/file_system.h"

namespace stagecoach {
namespace {

struct DigestArguments {
  std::string path;
  bool state = false;
};

int PrintDigest(const DigestArguments& arguments) {
  const absl::StatusOr<VerifiedCheckpoint> checkpoint = VerifyCheckpoint(FileSystem::Posix(), arguments.path);
  if (!checkpoint.ok()) {
    std::cerr << "stagecoach: " << checkpoint.status().message() << "\n";
    return kExitUsage;
  }
  std::cout << (arguments.state ? checkpoint->state_digest : checkpoint->digest) << "\n";
  return kExitOk;
}

}  // namespace

void AddCheckpoint(CLI::App& root, Invocation& invocation) {
  CLI::App* checkpoint = AddVerb(root, "checkpoint", "look at checkpoints", "  stagecoach checkpoint digest DIR");
  checkpoint->require_subcommand(1);

  auto arguments = std::make_shared<DigestArguments>();
  CLI::App* digest = AddVerb(*checkpoint, "digest",
                             "verify a checkpoint and print the digest of its parameters, computed from the shards",
                             "  stagecoach checkpoint digest /tmp/stagecoach/tiny\n"
                             "  stagecoach checkpoint digest DIR --state");
  digest->add_option("path", arguments->path, "a checkpoint, or a directory of them: the newest is read")
      ->required()
      ->type_name("DIR");
  digest->add_flag("--state", arguments->state, "of parameters, optimizer state and update count");
  digest->callback([&invocation, arguments] { invocation.run = [arguments] { return PrintDigest(*arguments); }; });
}

}  // namespace stagecoach
