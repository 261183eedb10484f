#ifndef STAGECOACH_TESTS_TESTING_FAULT_FILE_SYSTEM_H_
#define STAGECOACH_TESTS_TESTING_FAULT_FILE_SYSTEM_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/file_system.h"
#include "common/mutex.h"

namespace stagecoach {

enum class FileOperation {
  kOpen,
  kRead,
  kCreate,
  kReserve,
  kAppend,
  kSync,
  kCommit,
  kCreateDirectories,
  kList,
  kGlob,
  kResolve,
  kRemove,
  kRename
};

// From call number `after` (counted from 0) on, `operation` on a path that contains `path_part` fails with `status`.
struct FileFault {
  FileOperation operation;
  std::string path_part;
  int after = 0;
  absl::Status status;
};

// A file system that does what another one does until it is told to fail. Records what changed the disk. Thread-safe;
// outlives its files.
class FaultFileSystem final : public FileSystem {
 public:
  explicit FaultFileSystem(FileSystem& base = FileSystem::Posix()) : base_(base) {}

  void Add(FileFault fault);
  // The disk takes this many more bytes: an Append writes what fits, then fails with RESOURCE_EXHAUSTED. A Reserve that
  // does not fit fails too; one that does takes nothing yet.
  void LimitFreeBytes(uint64_t bytes);
  // Called before each Read, and after each Sync that worked; set before use.
  std::function<void()> on_read, on_sync;
  // "commit PATH", "rename FROM", "remove PATH", in order.
  std::vector<std::string> changes() const;

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> Open(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<AtomicFile>> Create(const std::string& path) override;
  absl::Status CreateDirectories(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& directory) override;
  absl::StatusOr<std::vector<std::string>> Glob(const std::string& pattern) override;
  absl::StatusOr<std::string> Resolve(const std::string& path) override;
  absl::Status RemoveTree(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;

 private:
  class FaultyReader;
  class FaultyWriter;
  struct Armed {
    FileFault fault;
    int calls = 0;
  };

  absl::Status Check(FileOperation operation, const std::string& path);
  // How many of `bytes` still fit; takes them.
  uint64_t TakeFreeBytes(uint64_t bytes);
  bool Fits(uint64_t bytes) const;
  void Record(const char* what, const std::string& path);

  FileSystem& base_;
  mutable Mutex mutex_;
  std::vector<Armed> faults_ ABSL_GUARDED_BY(mutex_);
  uint64_t free_bytes_ ABSL_GUARDED_BY(mutex_) = std::numeric_limits<uint64_t>::max();
  std::vector<std::string> changes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_TESTING_FAULT_FILE_SYSTEM_H_
