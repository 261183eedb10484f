#include "common/file_system.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

// Of a file whose space was reserved: how much is passed on to the disk at a time, and how much may be under way.
constexpr uint64_t kWritebackBytes = uint64_t{8} << 20;
constexpr uint64_t kMaxWritebackBytes = uint64_t{256} << 20;

absl::Status ErrnoStatus(int error, absl::string_view action, const std::string& path) {
  const std::string message = absl::StrCat(action, " ", path, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(message);
    case ENOTDIR:
    case EISDIR:
    case EEXIST:
      return absl::FailedPreconditionError(message);
    default:
      return absl::UnknownError(message);
  }
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int Close() {
    const int result = close(fd_);
    fd_ = -1;
    return result;
  }

 private:
  int fd_;
};

std::string DirectoryOf(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path();
  return directory.empty() ? "." : directory;
}

absl::Status SyncDirectory(const std::string& directory) {
  Descriptor descriptor(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() < 0 || fsync(descriptor.get()) != 0) return ErrnoStatus(errno, "sync directory", directory);
  return absl::OkStatus();
}

class PosixRandomAccessFile final : public RandomAccessFile {
 public:
  PosixRandomAccessFile(std::string path, int fd, uint64_t size)
      : path_(std::move(path)), descriptor_(fd), size_(size) {}

  uint64_t size() const override { return size_; }

  absl::StatusOr<uint64_t> CurrentSize() const override {
    struct stat info;
    if (fstat(descriptor_.get(), &info) != 0) return ErrnoStatus(errno, "stat", path_);
    return static_cast<uint64_t>(info.st_size);
  }

  absl::Status Read(uint64_t offset, uint64_t bytes, void* to) const override {
    char* cursor = static_cast<char*>(to);
    while (bytes > 0) {
      const ssize_t got = pread(descriptor_.get(), cursor, bytes, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return ErrnoStatus(errno, "read", path_);
      if (got == 0) return absl::OutOfRangeError(absl::StrCat("read ", path_, ": ends before byte ", offset + bytes));
      cursor += got;
      offset += static_cast<uint64_t>(got);
      bytes -= static_cast<uint64_t>(got);
    }
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  const Descriptor descriptor_;
  const uint64_t size_;
};

class PosixAtomicFile final : public AtomicFile {
 public:
  PosixAtomicFile(std::string path, std::string temporary, int fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), descriptor_(fd) {}
  ~PosixAtomicFile() override {
    if (!committed_) unlink(temporary_.c_str());
  }

  // Not posix_fallocate, which writes into every block where the file system cannot reserve: there, the disk is found
  // full when it is.
  absl::Status Reserve(uint64_t bytes) override {
    reserved_ = true;
    while (bytes > 0 && fallocate(descriptor_.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) != 0) {
      if (errno == EINTR) continue;
      if (errno == EOPNOTSUPP || errno == ENOSYS) return absl::OkStatus();
      return ErrnoStatus(errno, "reserve space for", path_);
    }
    return absl::OkStatus();
  }

  absl::Status Append(const void* data, uint64_t bytes) override {
    synced_ = false;
    const char* cursor = static_cast<const char*>(data);
    while (bytes > 0) {
      const uint64_t piece = reserved_ ? std::min(bytes, kWritebackBytes) : bytes;
      const ssize_t written = write(descriptor_.get(), cursor, piece);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return ErrnoStatus(errno, "write", path_);
      cursor += written;
      bytes -= static_cast<uint64_t>(written);
      written_ += static_cast<uint64_t>(written);
      STAGECOACH_RETURN_IF_ERROR(PassOn());
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    if (!synced_ && fsync(descriptor_.get()) != 0) return ErrnoStatus(errno, "sync", path_);
    synced_ = true;
    return absl::OkStatus();
  }

  absl::Status Commit() override {
    STAGECOACH_RETURN_IF_ERROR(Sync());
    if (descriptor_.Close() != 0) return ErrnoStatus(errno, "close", path_);
    if (rename(temporary_.c_str(), path_.c_str()) != 0) return ErrnoStatus(errno, "rename", path_);
    committed_ = true;
    return SyncDirectory(DirectoryOf(path_));
  }

 private:
  // Begins to write what has come, and waits for what was begun long ago.
  absl::Status PassOn() {
    if (!reserved_) return absl::OkStatus();
    if (written_ - passed_on_ >= kWritebackBytes) {
      STAGECOACH_RETURN_IF_ERROR(SyncRange(passed_on_, written_ - passed_on_, SYNC_FILE_RANGE_WRITE));
      passed_on_ = written_;
    }
    if (passed_on_ - on_disk_ > kMaxWritebackBytes) {
      const uint64_t bytes = passed_on_ - on_disk_ - kMaxWritebackBytes;
      STAGECOACH_RETURN_IF_ERROR(SyncRange(on_disk_, bytes, SYNC_FILE_RANGE_WAIT_BEFORE));
      on_disk_ += bytes;
    }
    return absl::OkStatus();
  }
  absl::Status SyncRange(uint64_t offset, uint64_t bytes, unsigned flags) {
    const int result = sync_file_range(descriptor_.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes), flags);
    // Where it is not known, fsync does all. Any other error is of the bytes, and fsync might not report it again.
    if (result == 0 || errno == EINVAL || errno == ENOSYS || errno == ESPIPE) return absl::OkStatus();
    return ErrnoStatus(errno, "write", path_);
  }

  const std::string path_;
  const std::string temporary_;
  Descriptor descriptor_;
  bool reserved_ = false;
  bool synced_ = false;
  bool committed_ = false;
  uint64_t written_ = 0;
  // Of a file whose space was reserved: up to where the bytes were given to the disk, and are on it.
  uint64_t passed_on_ = 0;
  uint64_t on_disk_ = 0;
};

class PosixFileSystem final : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> Open(const std::string& path) override {
    // O_NONBLOCK: opening a FIFO must not hang.
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return ErrnoStatus(errno, "open", path);
    struct stat info;
    const int result = fstat(fd, &info);
    auto file =
        std::make_unique<PosixRandomAccessFile>(path, fd, static_cast<uint64_t>(result == 0 ? info.st_size : 0));
    if (result != 0) return ErrnoStatus(errno, "stat", path);
    if (!S_ISREG(info.st_mode))
      return absl::FailedPreconditionError(absl::StrCat("open ", path, ": not a regular file"));
    return file;
  }

  absl::StatusOr<std::unique_ptr<AtomicFile>> Create(const std::string& path) override {
    std::string temporary = absl::StrCat(path, ".tmp.", getpid(), ".XXXXXX");
    const int fd = mkostemp(temporary.data(), O_CLOEXEC);
    if (fd < 0) return ErrnoStatus(errno, "create", path);
    auto file = std::make_unique<PosixAtomicFile>(path, temporary, fd);
    if (fchmod(fd, 0644) != 0) return ErrnoStatus(errno, "chmod", path);
    return file;
  }

  absl::Status CreateDirectories(const std::string& path) override {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) return ErrnoStatus(error.value(), "create directory", path);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& directory) override {
    std::error_code error;
    std::vector<std::string> names;
    std::filesystem::directory_iterator entry(directory, error), end;
    for (; !error && entry != end; entry.increment(error)) names.push_back(entry->path().filename());
    if (error) return ErrnoStatus(error.value(), "list", directory);
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::StatusOr<std::vector<std::string>> Glob(const std::string& pattern) override {
    glob_t found = {};
    const int result = glob(pattern.c_str(), GLOB_ERR | GLOB_NOSORT, nullptr, &found);
    std::vector<std::string> paths;
    for (size_t i = 0; result == 0 && i < found.gl_pathc; ++i) {
      std::error_code error;
      if (std::filesystem::is_regular_file(found.gl_pathv[i], error)) paths.emplace_back(found.gl_pathv[i]);
    }
    globfree(&found);
    if (result == GLOB_ABORTED) return ErrnoStatus(errno, "list", pattern);
    if (result == GLOB_NOSPACE) return absl::ResourceExhaustedError(absl::StrCat("list ", pattern, ": out of memory"));
    if (paths.empty()) return absl::NotFoundError(absl::StrCat("no regular file matches ", pattern));
    std::sort(paths.begin(), paths.end());
    return paths;
  }

  absl::StatusOr<std::string> Resolve(const std::string& path) override {
    std::error_code error;
    const std::filesystem::path resolved = std::filesystem::canonical(path, error);
    if (error) return ErrnoStatus(error.value(), "resolve", path);
    return resolved.string();
  }

  absl::Status RemoveTree(const std::string& path) override {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (error) return ErrnoStatus(error.value(), "remove", path);
    return absl::OkStatus();
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) != 0) return ErrnoStatus(errno, "rename", from);
    return SyncDirectory(DirectoryOf(to));
  }
};

}  // namespace

FileSystem& FileSystem::Posix() {
  static PosixFileSystem files;
  return files;
}

absl::StatusOr<std::string> ReadFile(FileSystem& files, const std::string& path, uint64_t max_bytes) {
  STAGECOACH_ASSIGN_OR_RETURN(const std::unique_ptr<RandomAccessFile> file, files.Open(path));
  if (file->size() > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, " has ", file->size(), " bytes; at most ", max_bytes, " are accepted"));
  }
  std::string contents(file->size(), '\0');
  STAGECOACH_RETURN_IF_ERROR(file->Read(0, contents.size(), contents.data()));
  return contents;
}

absl::Status WriteFileAtomically(FileSystem& files, const std::string& path, absl::string_view contents) {
  STAGECOACH_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> file, files.Create(path));
  STAGECOACH_RETURN_IF_ERROR(file->Append(contents.data(), contents.size()));
  return file->Commit();
}

}  // namespace stagecoach
