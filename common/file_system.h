#ifndef STAGECOACH_COMMON_FILE_SYSTEM_H_
#define STAGECOACH_COMMON_FILE_SYSTEM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stagecoach {

// A file open for reading at any offset. Thread-safe. Closed on destruction.
class RandomAccessFile {
 public:
  virtual ~RandomAccessFile() = default;
  virtual uint64_t size() const = 0;                         // when it was opened
  virtual absl::StatusOr<uint64_t> CurrentSize() const = 0;  // now
  // Exactly `bytes` bytes at `offset`. OUT_OF_RANGE: past the end (also of a file that has shrunk). UNKNOWN: an I/O
  // error.
  virtual absl::Status Read(uint64_t offset, uint64_t bytes, void* to) const = 0;
};

// A new file, written from its start. Nothing is durable, or visible under its final name, before Commit. Used by one
// thread.
class AtomicFile {
 public:
  virtual ~AtomicFile() = default;  // without Commit: the temporary file is removed
  // Once, before the first Append, for a large file: takes the space for `bytes` bytes where the file system can, and
  // passes on to the disk what is appended while more comes, so that Sync has little left to do and is short.
  // RESOURCE_EXHAUSTED: the disk has not as much.
  virtual absl::Status Reserve(uint64_t bytes) = 0;
  virtual absl::Status Append(const void* data, uint64_t bytes) = 0;  // RESOURCE_EXHAUSTED: the disk is full
  // fsync. What Commit begins with; by itself, for a writer that looks at something between the two.
  virtual absl::Status Sync() = 0;
  // Sync unless nothing was appended since, rename onto the final name, fsync of the directory.
  virtual absl::Status Commit() = 0;
};

// The seam for files, so that tests can make them fail. Thread-safe. Errors name the path: NOT_FOUND,
// PERMISSION_DENIED, RESOURCE_EXHAUSTED (disk full), FAILED_PRECONDITION (not a regular file or not a directory),
// UNKNOWN.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual absl::StatusOr<std::unique_ptr<RandomAccessFile>> Open(const std::string& path) = 0;
  virtual absl::StatusOr<std::unique_ptr<AtomicFile>> Create(const std::string& path) = 0;
  virtual absl::Status CreateDirectories(const std::string& path) = 0;                      // existing ones are fine
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& directory) = 0;  // names, sorted
  // Regular files that match a shell pattern, sorted bytewise; none is NOT_FOUND. A path without pattern characters is
  // that file.
  virtual absl::StatusOr<std::vector<std::string>> Glob(const std::string& pattern) = 0;
  // The absolute path without links; two paths of one file resolve to the same string.
  virtual absl::StatusOr<std::string> Resolve(const std::string& path) = 0;
  virtual absl::Status RemoveTree(const std::string& path) = 0;
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;  // and fsync of the directory

  static FileSystem& Posix();
};

// The whole file; RESOURCE_EXHAUSTED when it is larger than `max_bytes`.
absl::StatusOr<std::string> ReadFile(FileSystem& files, const std::string& path, uint64_t max_bytes);
absl::Status WriteFileAtomically(FileSystem& files, const std::string& path, absl::string_view contents);

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_FILE_SYSTEM_H_
