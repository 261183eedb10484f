#ifndef STAGECOACH_FORMATS_CHECKPOINT_RETENTION_H_
#define STAGECOACH_FORMATS_CHECKPOINT_RETENTION_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/file_system.h"

namespace stagecoach {

// Which checkpoints of a directory need not be kept. Only those that verify count, so that the ones that are kept can
// be resumed from; each is read once in the life of this object. Used by one thread.
class CheckpointRetention {
 public:
  explicit CheckpointRetention(FileSystem& files) : files_(files) {}

  // Of the checkpoints that jobs of this name (empty: of any) have written, removes those older than the newest
  // `keep_last` (at least 1) that verify; none while there are fewer. What is newer and does not verify stays, to be
  // looked at, and so does what has no manifest: it may be in the making. Returns the paths that were removed. The
  // manifest goes first, so that what is half removed is no checkpoint.
  absl::StatusOr<std::vector<std::string>> Prune(const std::string& directory, const std::string& job_name,
                                                 uint32_t keep_last);

 private:
  // DATA_LOSS: it is damaged.
  absl::Status Verify(const std::string& checkpoint, const std::string& digest);

  FileSystem& files_;
  std::map<std::string, std::string> verified_;  // path -> digest of the state
};

}  // namespace stagecoach

#endif  // STAGECOACH_FORMATS_CHECKPOINT_RETENTION_H_
