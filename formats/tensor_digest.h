#ifndef STAGECOACH_FORMATS_TENSOR_DIGEST_H_
#define STAGECOACH_FORMATS_TENSOR_DIGEST_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "stagecoach/v1/plan.pb.h"

namespace stagecoach {

// 128 bits of one tensor's bytes: two sums, modulo 2^64, of mixed (position, 32-bit word) pairs. Any order of
// evaluation gives the same value, so a GPU kernel, a slice of a sharded tensor and a CPU agree. Not cryptographic.
struct TensorDigest {
  std::array<uint64_t, 2> words{};
  bool operator==(const TensorDigest&) const = default;
  std::string Hex() const;  // 32 digits: words[1], then words[0]
};

inline constexpr std::array<uint64_t, 2> kDigestMultipliers = {0xff51afd7ed558ccdULL, 0xc4ceb9fe1a85ec53ULL};

// The contribution of the 32-bit word at `position`, to sum `which`. The last word of a tensor whose size is not a
// multiple of four is padded with zero bytes.
constexpr uint64_t DigestWord(uint64_t position, uint32_t word, size_t which) {
  uint64_t x = (position + 1) * 0x9e3779b97f4a7c15ULL ^ word;
  x *= kDigestMultipliers[which];
  x ^= x >> 32;
  x *= 0x2545f4914f6cdd1dULL;
  x ^= x >> 29;
  return x;
}

// `first_word` is the position of bytes[0] in the tensor, in words, for digests of slices: digests of the slices of a
// tensor add up, when every slice but the last has a multiple of four bytes.
TensorDigest DigestBytes(std::span<const std::byte> bytes, uint64_t first_word = 0);
TensorDigest operator+(const TensorDigest& a, const TensorDigest& b);

// Digest of a set of tensors: XXH3-128 over (name, dtype, shape, tensor digest) in bytewise name order, made from
// per-tensor digests so that the coordinator combines stages without touching a tensor. Add order does not matter; a
// name twice is refused.
class ModelDigest {
 public:
  bool Add(const std::string& name, v1::DType dtype, std::span<const uint64_t> shape, const TensorDigest& digest);
  // Makes it a state digest. The count of another stage, when it is the same, changes nothing: the number of stages
  // does not show.
  void AddUpdateCount(uint64_t num_updates);
  std::string Hex() const;  // 32 digits

 private:
  std::map<std::string, std::vector<uint64_t>> entries_;  // name -> dtype, rank, shape, digest
  std::set<uint64_t> update_counts_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_FORMATS_TENSOR_DIGEST_H_
