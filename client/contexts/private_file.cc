#include "client/contexts/private_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/clock.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kLockPoll = absl::Milliseconds(20);

absl::Status Failed(absl::string_view action, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(action, " ", path));
}

absl::Status WriteAll(int descriptor, absl::string_view contents, const std::string& path) {
  while (!contents.empty()) {
    const ssize_t written = write(descriptor, contents.data(), contents.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed("cannot write", path);
    contents.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FileLock> FileLock::Try(const std::string& path) {
  FileLock lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (lock.descriptor_ < 0) return Failed("cannot open", path);
  if (flock(lock.descriptor_, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK) return absl::FailedPreconditionError(absl::StrCat("another process has ", path));
  return Failed("cannot lock", path);
}

absl::StatusOr<FileLock> FileLock::Wait(const std::string& path, absl::Duration timeout) {
  const absl::Duration deadline = Clock::Real().Now() + timeout;
  for (;;) {
    absl::StatusOr<FileLock> lock = Try(path);
    if (!absl::IsFailedPrecondition(lock.status()) || Clock::Real().Now() >= deadline) return lock;
    absl::SleepFor(kLockPoll);
  }
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::Status FileLock::Write(absl::string_view contents) const {
  if (ftruncate(descriptor_, 0) != 0 || lseek(descriptor_, 0, SEEK_SET) != 0)
    return Failed("cannot write", "lock file");
  return WriteAll(descriptor_, contents, "lock file");
}

std::string DirectoryOf(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path();
  return directory.empty() ? "." : directory;
}

absl::Status MakePrivateDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0) return absl::OkStatus();
  if (errno == ENOENT && path != DirectoryOf(path)) {
    STAGECOACH_RETURN_IF_ERROR(MakePrivateDirectory(DirectoryOf(path)));
    if (mkdir(path.c_str(), 0700) == 0) return absl::OkStatus();
  }
  struct stat info;
  const int error = errno;
  if (error == EEXIST && stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return absl::OkStatus();
  errno = error == EEXIST ? ENOTDIR : error;
  return Failed("cannot make the directory", path);
}

absl::Status WritePrivateFile(const std::string& path, absl::string_view contents) {
  std::string temporary = path + ".XXXXXX";  // mkostemp makes it with mode 0600
  const int descriptor = mkostemp(temporary.data(), O_CLOEXEC);
  if (descriptor < 0) return Failed("cannot write", path);
  absl::Status status = WriteAll(descriptor, contents, path);
  if (status.ok() && fsync(descriptor) != 0) status = Failed("cannot write", path);
  close(descriptor);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) status = Failed("cannot write", path);
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

}  // namespace stagecoach
