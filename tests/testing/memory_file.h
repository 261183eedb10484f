#ifndef STAGECOACH_TESTS_TESTING_MEMORY_FILE_H_
#define STAGECOACH_TESTS_TESTING_MEMORY_FILE_H_

#include <cstring>
#include <string>
#include <utility>

#include "common/file_system.h"

namespace stagecoach {

// A file for reading whose bytes are given. Thread-safe.
class MemoryFile final : public RandomAccessFile {
 public:
  explicit MemoryFile(std::string bytes) : bytes_(std::move(bytes)) {}
  uint64_t size() const override { return bytes_.size(); }
  absl::StatusOr<uint64_t> CurrentSize() const override { return size(); }
  absl::Status Read(uint64_t offset, uint64_t bytes, void* to) const override {
    if (offset > bytes_.size() || bytes > bytes_.size() - offset) return absl::OutOfRangeError("past the end");
    if (bytes > 0) std::memcpy(to, bytes_.data() + offset, bytes);
    return absl::OkStatus();
  }

 private:
  const std::string bytes_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_TESTING_MEMORY_FILE_H_
