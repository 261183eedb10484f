#include "formats/file_digest.h"

#include <xxhash.h>

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace stagecoach {

FileDigest::FileDigest() : state_(XXH3_createState()) {
  STAGECOACH_CHECK(state_ != nullptr);
  XXH3_128bits_reset(state_.get());
}

void FileDigest::Deleter::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

void FileDigest::Add(const void* data, uint64_t bytes) { XXH3_128bits_update(state_.get(), data, bytes); }

std::string FileDigest::Hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
  return absl::StrCat(absl::Hex(hash.high64, absl::kZeroPad16), absl::Hex(hash.low64, absl::kZeroPad16));
}

}  // namespace stagecoach
