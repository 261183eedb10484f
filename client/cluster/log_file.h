#ifndef STAGECOACH_CLIENT_CLUSTER_LOG_FILE_H_
#define STAGECOACH_CLIENT_CLUSTER_LOG_FILE_H_

#include <cstdint>
#include <string>

namespace stagecoach {

// The last `max_lines` lines of a file, each after "  | "; empty when there are none.
std::string LogTail(const std::string& path, int max_lines);

// Moves what a file has to PATH.1, which it replaces, when it has grown over `max_bytes`; of more than that, the end.
// Its writers must append, and keep the file open. A line that is written meanwhile may be lost.
void LimitLog(const std::string& path, uint64_t max_bytes);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_CLUSTER_LOG_FILE_H_
