#include "client/cluster/log_file.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/contexts/private_file.h"
#include "client/output/table.h"

namespace stagecoach {
namespace {

constexpr uint64_t kMaxTailBytes = 16 << 10;

uint64_t SizeOf(const std::string& path) {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  return error ? 0 : size;
}

std::string LastBytes(const std::string& path, uint64_t bytes) {
  const uint64_t size = SizeOf(path);
  bytes = std::min(bytes, size);
  std::string text(bytes, '\0');
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(size - bytes));
  file.read(text.data(), static_cast<std::streamsize>(bytes));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

}  // namespace

std::string LogTail(const std::string& path, int max_lines) {
  std::vector<std::string> lines = absl::StrSplit(LastBytes(path, kMaxTailBytes), '\n', absl::SkipEmpty());
  const size_t kept = std::min(lines.size(), static_cast<size_t>(max_lines));
  std::string text;
  for (size_t i = lines.size() - kept; i < lines.size(); ++i) absl::StrAppend(&text, "  | ", Printable(lines[i]), "\n");
  return text;
}

void LimitLog(const std::string& path, uint64_t max_bytes) {
  if (SizeOf(path) <= max_bytes) return;
  if (WritePrivateFile(path + ".1", LastBytes(path, max_bytes)).ok()) (void)!truncate(path.c_str(), 0);
}

}  // namespace stagecoach
