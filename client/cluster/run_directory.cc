#include "client/cluster/run_directory.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

constexpr char kPrefix[] = "stagecoach-train-";

std::string LockFile(const std::string& directory) { return directory + "/client.pid"; }
std::string KeepFile(const std::string& directory) { return directory + "/kept"; }

void Remove(const std::string& directory) {
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
}

// Others' directories, and links that others have put there, are not this user's to remove.
bool IsOwnDirectory(const std::string& path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid();
}

// A directory without a lock file is not a run's, or about to become one.
void RemoveIfAbandoned(const std::string& directory) {
  if (!IsOwnDirectory(directory) || access(LockFile(directory).c_str(), F_OK) != 0) return;
  const absl::StatusOr<FileLock> lock = FileLock::Try(LockFile(directory));
  // It is marked as kept before its lock is let go.
  if (lock.ok() && access(KeepFile(directory).c_str(), F_OK) != 0) Remove(directory);
}

void RemoveAbandoned(const std::filesystem::path& parent) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error)) {
    if (absl::StartsWith(entry->path().filename().string(), kPrefix)) RemoveIfAbandoned(entry->path());
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunDirectory>> RunDirectory::Make() {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
  if (error) return absl::FailedPreconditionError(absl::StrCat("no directory for temporary files: ", error.message()));
  RemoveAbandoned(parent);
  std::string path = (parent / absl::StrCat(kPrefix, "XXXXXX")).string();  // mode 0700
  if (mkdtemp(path.data()) == nullptr) return absl::ErrnoToStatus(errno, absl::StrCat("cannot make ", path));
  absl::StatusOr<FileLock> lock = FileLock::Try(LockFile(path));
  const absl::Status status = lock.ok() ? lock->Write(absl::StrCat(getpid(), "\n")) : lock.status();
  if (!status.ok()) {
    Remove(path);
    return status;
  }
  return absl::WrapUnique(new RunDirectory(std::move(path), *std::move(lock)));
}

void RunDirectory::Keep() { kept_ = WritePrivateFile(KeepFile(path_), "its logs are for people to look at\n").ok(); }

RunDirectory::~RunDirectory() {
  if (!kept_) Remove(path_);
}

}  // namespace stagecoach
