#ifndef STAGECOACH_CLIENT_COMMANDS_SIMULATED_ARGUMENT_H_
#define STAGECOACH_CLIENT_COMMANDS_SIMULATED_ARGUMENT_H_

#include <string>

#include "CLI/CLI.hpp"

namespace stagecoach {

// Of verbs that start workers; common/simulated_device.h checks the value.
inline void AddSimulatedBlockSeconds(CLI::App& verb, std::string& value) {
  verb.add_option("--simulated-block-seconds", value,
                  "of device simulated, which computes nothing: what a transformer block's forward, backward for input "
                  "and backward for weight take")
      ->type_name("F,I,W");
}

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_SIMULATED_ARGUMENT_H_
