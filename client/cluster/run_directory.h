#ifndef STAGECOACH_CLIENT_CLUSTER_RUN_DIRECTORY_H_
#define STAGECOACH_CLIENT_CLUSTER_RUN_DIRECTORY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/contexts/private_file.h"

namespace stagecoach {

// A directory of one run's own, TMPDIR/stagecoach-train-XXXXXX, that goes away with this object. What a process that
// was killed has left is removed by the next run of the same user: nobody has the lock on its DIR/client.pid any more.
// Used by one thread.
class RunDirectory {
 public:
  // Also removes what others have left. FAILED_PRECONDITION: there is no directory for temporary files. Errors of the
  // file system.
  static absl::StatusOr<std::unique_ptr<RunDirectory>> Make();
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  const std::string& path() const { return path_; }
  // For people to look at: neither this object nor a later run removes it.
  void Keep();

 private:
  RunDirectory(std::string path, FileLock lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  const std::string path_;
  const FileLock lock_;
  bool kept_ = false;
};

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_CLUSTER_RUN_DIRECTORY_H_
