#ifndef STAGECOACH_CLIENT_COMMANDS_CONFIRMATION_H_
#define STAGECOACH_CLIENT_COMMANDS_CONFIRMATION_H_

#include <unistd.h>

#include <iostream>
#include <string>

namespace stagecoach {

inline bool PersonIsThere() { return isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1; }

// Asks a person who is there; scripts are taken at their word. True: go on.
inline bool Confirm(const std::string& question, bool yes) {
  if (yes || !PersonIsThere()) return true;
  std::cerr << question << " [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  if (answer == "y" || answer == "Y" || answer == "yes") return true;
  std::cerr << "nothing was done\n";
  return false;
}

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_CONFIRMATION_H_
