#ifndef STAGECOACH_CLIENT_CONTEXTS_PRIVATE_FILE_H_
#define STAGECOACH_CLIENT_CONTEXTS_PRIVATE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace stagecoach {

// An advisory lock on a file, which this makes (mode 0600) and leaves there. The system drops it with the process that
// has it, however that ends; children that are started do not inherit it.
class FileLock {
 public:
  // FAILED_PRECONDITION: another process has it. Errors of the file otherwise.
  static absl::StatusOr<FileLock> Try(const std::string& path);
  static absl::StatusOr<FileLock> Wait(const std::string& path, absl::Duration timeout);

  FileLock(FileLock&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

  // What the file says, for those who do not have the lock.
  absl::Status Write(absl::string_view contents) const;

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

std::string DirectoryOf(const std::string& path);
// And those above it; a new one has mode 0700.
absl::Status MakePrivateDirectory(const std::string& path);
// Whole or not at all, mode 0600.
absl::Status WritePrivateFile(const std::string& path, absl::string_view contents);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_CONTEXTS_PRIVATE_FILE_H_
