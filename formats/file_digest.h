#ifndef STAGECOACH_FORMATS_FILE_DIGEST_H_
#define STAGECOACH_FORMATS_FILE_DIGEST_H_

#include <cstdint>
#include <memory>
#include <string>

struct XXH3_state_s;

namespace stagecoach {

// XXH3-128 of a file's bytes, taken while they pass. Used by one thread.
class FileDigest {
 public:
  FileDigest();
  void Add(const void* data, uint64_t bytes);
  std::string Hex() const;  // 32 digits

 private:
  struct Deleter {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Deleter> state_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_FORMATS_FILE_DIGEST_H_
