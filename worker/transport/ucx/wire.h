#ifndef STAGECOACH_WORKER_TRANSPORT_UCX_WIRE_H_
#define STAGECOACH_WORKER_TRANSPORT_UCX_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

namespace stagecoach {

// Appends numbers and short strings to bytes. Little-endian, as every machine that UCX is built for here.
class WireWriter {
 public:
  template <typename Number>
  WireWriter& Put(Number value) {
    static_assert(std::is_arithmetic_v<Number> || std::is_enum_v<Number>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  WireWriter& PutString(const std::string& text) {
    Put(static_cast<uint32_t>(text.size()));
    bytes_.append(text);
    return *this;
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads what WireWriter wrote, from bytes that anyone may have sent: reads past their end give zeros and make `ok`
// false.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename Number>
  Number Get() {
    static_assert(std::is_arithmetic_v<Number>);
    Number value{};
    if (!Has(sizeof(value))) return value;
    std::memcpy(&value, bytes_.data(), sizeof(value));
    bytes_ = bytes_.subspan(sizeof(value));
    return value;
  }
  std::string GetString() {
    const auto size = Get<uint32_t>();
    if (!Has(size)) return "";
    std::string text(reinterpret_cast<const char*>(bytes_.data()), size);
    bytes_ = bytes_.subspan(size);
    return text;
  }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && bytes_.empty(); }

 private:
  bool Has(size_t size) {
    ok_ = ok_ && size <= bytes_.size();
    return ok_;
  }

  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_TRANSPORT_UCX_WIRE_H_
