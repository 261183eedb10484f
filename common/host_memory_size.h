#ifndef STAGECOACH_COMMON_HOST_MEMORY_SIZE_H_
#define STAGECOACH_COMMON_HOST_MEMORY_SIZE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace stagecoach {

// Bytes that this process may still hope for: the system's available memory, or the limit of a control group above the
// process where that is lower.
size_t HostMemoryBytes();

// Bytes that this process could have if nothing else ran: the system's memory, or the limit of a control group.
size_t InstalledMemoryBytes();

// "MemAvailable" of the text of /proc/meminfo.
std::optional<size_t> MemAvailableOf(absl::string_view meminfo);

// The files with the memory limits that bind a process, given the text of its /proc/self/cgroup, of both versions of
// control groups: its group's and those of all groups above, since each of them binds.
std::vector<std::string> MemoryLimitFiles(absl::string_view self_cgroup);

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_HOST_MEMORY_SIZE_H_
