#include "client/commands/text_input.h"

#include <iostream>

#include "common/file_system.h"

namespace stagecoach {

absl::StatusOr<std::string> ReadTextInput(const std::string& file, uint64_t max_bytes) {
  if (file != "-") return ReadFile(FileSystem::Posix(), file, max_bytes);
  std::string text;
  char buffer[1 << 16];
  while (text.size() <= max_bytes && std::cin.read(buffer, sizeof(buffer)).gcount() > 0) {
    text.append(buffer, static_cast<size_t>(std::cin.gcount()));
  }
  return text;
}

}  // namespace stagecoach
