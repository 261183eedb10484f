#ifndef STAGECOACH_COMMON_UNIQUE_DESCRIPTOR_H_
#define STAGECOACH_COMMON_UNIQUE_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace stagecoach {

// Owns a file descriptor; -1: none.
class UniqueDescriptor {
 public:
  UniqueDescriptor() = default;
  explicit UniqueDescriptor(int fd) : fd_(fd) {}
  ~UniqueDescriptor() { Reset(); }
  UniqueDescriptor(UniqueDescriptor&& other) noexcept : fd_(other.Release()) {}
  UniqueDescriptor& operator=(UniqueDescriptor&& other) noexcept {
    Reset();
    fd_ = other.Release();
    return *this;
  }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  // It is the caller's now.
  int Release() { return std::exchange(fd_, -1); }
  void Reset() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_UNIQUE_DESCRIPTOR_H_
