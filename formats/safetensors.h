#ifndef STAGECOACH_FORMATS_SAFETENSORS_H_
#define STAGECOACH_FORMATS_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/file_system.h"
#include "formats/file_digest.h"
#include "formats/safetensors_header.h"

namespace stagecoach {

// A file whose header has been checked whole: every tensor lies where its type and shape say, and the tensors tile the
// rest of the file. Bytes are read on demand (never mapped: a file that shrinks must be an error, not a signal; never
// cast: other writers leave tensors unaligned). Thread-safe after Open.
class SafetensorsReader {
 public:
  // DATA_LOSS: not a whole, valid file; the message names the file and, when the fault is in one, the tensor. Errors of
  // the file system keep their codes.
  static absl::StatusOr<SafetensorsReader> Open(FileSystem& files, const std::string& path);
  static absl::StatusOr<SafetensorsReader> Create(std::unique_ptr<RandomAccessFile> file, const std::string& path);

  const std::string& path() const { return path_; }
  const SafetensorsMetadata& metadata() const { return header_.metadata; }
  std::span<const SafetensorsTensor> tensors() const { return header_.tensors; }  // in the order of their bytes
  const SafetensorsTensor* Find(absl::string_view name) const;                    // null: none
  uint64_t data_begin() const { return data_begin_; }                             // of the first tensor
  uint64_t file_bytes() const { return file_->size(); }

  // Bytes [offset, offset + to.size()) of the tensor. INVALID_ARGUMENT: outside of it. DATA_LOSS: the file has shrunk.
  absl::Status Read(const SafetensorsTensor& tensor, uint64_t offset, std::span<std::byte> to) const;
  // The same of the file, for digests of the whole.
  absl::Status ReadRaw(uint64_t offset, std::span<std::byte> to) const;

 private:
  SafetensorsReader(std::unique_ptr<RandomAccessFile> file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}
  absl::Status ReadHeader();

  std::unique_ptr<RandomAccessFile> file_;
  std::string path_;
  SafetensorsHeader header_;
  std::vector<size_t> by_name_;  // positions in header_.tensors
  uint64_t data_begin_ = 0;
};

// Writes a file in canonical form (tensors by element size descending, then by name; header padded with spaces to a
// multiple of 8) piece by piece, so that a file may be larger than memory. The bytes of a file are a function of
// metadata and tensors alone. Used by one thread. Nothing is visible before Commit; without it nothing stays.
class SafetensorsWriter {
 public:
  struct Declaration {
    std::string name;
    SafetensorsType type = SafetensorsType::kF32;
    std::vector<uint64_t> shape = {};
  };
  struct Written {
    uint64_t bytes = 0;
    std::string digest;  // XXH3-128 of the file, hex; empty after TakeDigest
  };

  // Reserves the space of the whole file. INVALID_ARGUMENT: a name twice or "__metadata__", text that is not UTF-8, a
  // shape whose bytes are not whole or overflow, a header over the limit.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(FileSystem& files, const std::string& path,
                                                                   const SafetensorsMetadata& metadata,
                                                                   std::vector<Declaration> tensors);

  // In the order in which their bytes are due.
  std::span<const SafetensorsTensor> tensors() const { return tensors_; }
  // Of what has been appended so far, the header included. From now on whoever appends adds to it, perhaps in another
  // thread. Once.
  FileDigest TakeDigest();
  // The next bytes of the file's data, in pieces of any size. INVALID_ARGUMENT: more than was declared.
  absl::Status Append(std::span<const std::byte> bytes);
  // FAILED_PRECONDITION: bytes are missing. Sync makes them durable and nothing visible: see AtomicFile.
  absl::Status Sync();
  absl::StatusOr<Written> Commit();

 private:
  SafetensorsWriter(std::unique_ptr<AtomicFile> file, std::string path, std::vector<SafetensorsTensor> tensors,
                    uint64_t file_bytes)
      : file_(std::move(file)), path_(std::move(path)), tensors_(std::move(tensors)), file_bytes_(file_bytes) {}
  absl::Status AppendHashed(const void* data, uint64_t bytes);
  absl::Status CheckWhole() const;

  std::unique_ptr<AtomicFile> file_;
  const std::string path_;
  const std::vector<SafetensorsTensor> tensors_;
  const uint64_t file_bytes_;
  uint64_t written_ = 0;
  std::optional<FileDigest> digest_ = FileDigest();  // nothing: it was taken
};

}  // namespace stagecoach

#endif  // STAGECOACH_FORMATS_SAFETENSORS_H_
