#include "common/host_memory_size.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace stagecoach {
namespace {

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Without a limit, version 2 says "max", which is no number, and version 1 a number beyond any memory.
std::optional<size_t> NumberOf(absl::string_view text) {
  uint64_t number = 0;
  if (!absl::SimpleAtoi(text, &number)) return std::nullopt;
  return static_cast<size_t>(number);
}

void AddGroupAndAbove(absl::string_view root, absl::string_view group, absl::string_view file,
                      std::vector<std::string>& files) {
  while (true) {
    while (absl::EndsWith(group, "/")) group.remove_suffix(1);
    files.push_back(absl::StrCat(root, group, "/", file));
    if (group.empty()) return;
    const size_t slash = group.rfind('/');
    group = slash == absl::string_view::npos ? absl::string_view() : group.substr(0, slash);
  }
}

}  // namespace

std::optional<size_t> MemAvailableOf(absl::string_view meminfo) {
  for (const absl::string_view line : absl::StrSplit(meminfo, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (words.size() != 3 || words[0] != "MemAvailable:" || words[2] != "kB") continue;
    const std::optional<size_t> kibibytes = NumberOf(words[1]);
    if (kibibytes.has_value()) return *kibibytes * 1024;
  }
  return std::nullopt;
}

std::vector<std::string> MemoryLimitFiles(absl::string_view self_cgroup) {
  std::vector<std::string> files;
  for (const absl::string_view line : absl::StrSplit(self_cgroup, '\n', absl::SkipEmpty())) {
    // hierarchy:controllers:group
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<absl::string_view> controllers = absl::StrSplit(parts[1], ',');
    if (parts[0] == "0" && parts[1].empty()) {
      AddGroupAndAbove("/sys/fs/cgroup", parts[2], "memory.max", files);
    } else if (std::find(controllers.begin(), controllers.end(), "memory") != controllers.end()) {
      AddGroupAndAbove("/sys/fs/cgroup/memory", parts[2], "memory.limit_in_bytes", files);
    }
  }
  return files;
}

size_t HostMemoryBytes() {
  const size_t installed = InstalledMemoryBytes();
  return std::min(installed, MemAvailableOf(TextOf("/proc/meminfo")).value_or(installed));
}

size_t InstalledMemoryBytes() {
  size_t bytes = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (const std::string& file : MemoryLimitFiles(TextOf("/proc/self/cgroup"))) {
    bytes = std::min(bytes, NumberOf(TextOf(file)).value_or(bytes));
  }
  return bytes;
}

}  // namespace stagecoach
