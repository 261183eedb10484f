#ifndef STAGECOACH_FORMATS_SAFETENSORS_HEADER_H_
#define STAGECOACH_FORMATS_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stagecoach/v1/plan.pb.h"

namespace stagecoach {

// A safetensors file:
//
//   u64, little-endian   N, at most 100,000,000
//   N bytes              JSON: {"__metadata__": {...}, NAME: {"dtype": D, "shape": [...], "data_offsets": [BEGIN,
//   END]}, ...} the rest             the tensors' bytes, row-major, little-endian; offsets count from here; no holes,
//   no overlap
enum class SafetensorsType {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kI16,
  kU16,
  kF16,
  kBf16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};
const char* NameOf(SafetensorsType type);  // "F8_E4M3"
unsigned BitsOf(SafetensorsType type);     // of one element
std::optional<SafetensorsType> SafetensorsTypeOf(v1::DType dtype);
v1::DType DTypeOf(SafetensorsType type);  // DTYPE_UNSPECIFIED: a type that Stagecoach does not compute with

struct SafetensorsTensor {
  std::string name;  // any text: print it with Quoted
  SafetensorsType type = SafetensorsType::kF32;
  std::vector<uint64_t> shape = {};
  uint64_t begin = 0;  // offsets in the file, so that [begin, end) can be read as it is
  uint64_t end = 0;
  uint64_t bytes() const { return end - begin; }
};
using SafetensorsMetadata = std::map<std::string, std::string>;

// The header of a file without its tensors, checked whole.
struct SafetensorsHeader {
  SafetensorsMetadata metadata;
  std::vector<SafetensorsTensor> tensors;  // in the order of their bytes
};

inline constexpr uint64_t kSafetensorsLengthBytes = 8;
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

// `text` is the JSON of a file of `file_bytes` bytes. DATA_LOSS: not JSON of the form above, a name or key twice, an
// unknown type, numbers that are not plain non-negative integers, a shape that does not give the range's bytes, ranges
// that do not tile the file. Takes memory in proportion to the text, whatever it is.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text, uint64_t file_bytes);

// Puts the tensors in canonical order, sets their offsets, and returns the file's first bytes (length and padded JSON).
// INVALID_ARGUMENT: see SafetensorsWriter::Create.
absl::StatusOr<std::string> LayOutSafetensors(const SafetensorsMetadata& metadata,
                                              std::vector<SafetensorsTensor>& tensors);

}  // namespace stagecoach

#endif  // STAGECOACH_FORMATS_SAFETENSORS_HEADER_H_
