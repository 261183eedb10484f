#ifndef STAGECOACH_TESTS_FUZZ_INPUT_READER_H_
#define STAGECOACH_TESTS_FUZZ_INPUT_READER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace stagecoach {

// Takes an input apart, from front to back; what is missing reads as zero and as no bytes.
class InputReader {
 public:
  InputReader(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  bool empty() const { return size_ == 0; }
  uint8_t Byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  // Of a length that comes before them: one byte, or two when its first bit is set.
  std::string Bytes() {
    size_t length = Byte();
    if (length >= 128) length = (length - 128) << 8 | Byte();
    length = std::min(length, size_);
    std::string bytes(reinterpret_cast<const char*>(data_), length);
    data_ += length;
    size_ -= length;
    return bytes;
  }
  // From bytes that may be only partly a message.
  template <typename Message>
  Message Proto() {
    Message message;
    if (!message.ParsePartialFromString(Bytes())) message.Clear();
    return message;
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_FUZZ_INPUT_READER_H_
