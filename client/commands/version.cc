#include <iostream>

#include "client/commands/command.h"
#include "client/commands/exit_codes.h"

namespace stagecoach {

void AddVersion(CLI::App& root, Invocation& invocation) {
  root.add_subcommand("version", "print the version")->callback([&invocation] {
    invocation.run = [] {
      std::cout << "stagecoach " << STAGECOACH_VERSION << "\n";
      return kExitOk;
    };
  });
}

}  // namespace stagecoach
