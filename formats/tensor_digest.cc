#include "formats/tensor_digest.h"

#include <xxhash.h>

#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace stagecoach {

static_assert(std::endian::native == std::endian::little, "words are read as they lie in memory");

std::string TensorDigest::Hex() const {
  return absl::StrCat(absl::Hex(words[1], absl::kZeroPad16), absl::Hex(words[0], absl::kZeroPad16));
}

TensorDigest DigestBytes(std::span<const std::byte> bytes, uint64_t first_word) {
  TensorDigest digest;
  const std::byte* const data = bytes.data();
  const size_t num_words = bytes.size() / 4;
  for (size_t i = 0; i < num_words; ++i) {
    uint32_t word;
    std::memcpy(&word, data + 4 * i, 4);
    digest.words[0] += DigestWord(first_word + i, word, 0);
    digest.words[1] += DigestWord(first_word + i, word, 1);
  }
  if (const size_t rest = bytes.size() % 4; rest != 0) {
    uint32_t word = 0;
    std::memcpy(&word, data + 4 * num_words, rest);
    digest.words[0] += DigestWord(first_word + num_words, word, 0);
    digest.words[1] += DigestWord(first_word + num_words, word, 1);
  }
  return digest;
}

TensorDigest operator+(const TensorDigest& a, const TensorDigest& b) {
  return {{a.words[0] + b.words[0], a.words[1] + b.words[1]}};
}

bool ModelDigest::Add(const std::string& name, v1::DType dtype, std::span<const uint64_t> shape,
                      const TensorDigest& digest) {
  std::vector<uint64_t> entry = {static_cast<uint64_t>(dtype), shape.size()};
  entry.insert(entry.end(), shape.begin(), shape.end());
  entry.insert(entry.end(), digest.words.begin(), digest.words.end());
  return entries_.emplace(name, std::move(entry)).second;
}

void ModelDigest::AddUpdateCount(uint64_t num_updates) { update_counts_.insert(num_updates); }

std::string ModelDigest::Hex() const {
  std::string text;
  const auto append = [&text](uint64_t word) { text.append(reinterpret_cast<const char*>(&word), sizeof word); };
  append(entries_.size());
  for (const auto& [name, entry] : entries_) {
    append(name.size());
    text += name;
    for (const uint64_t word : entry) append(word);
  }
  for (const uint64_t count : update_counts_) append(count);
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return absl::StrCat(absl::Hex(hash.high64, absl::kZeroPad16), absl::Hex(hash.low64, absl::kZeroPad16));
}

}  // namespace stagecoach
