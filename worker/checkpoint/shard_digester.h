#ifndef STAGECOACH_WORKER_CHECKPOINT_SHARD_DIGESTER_H_
#define STAGECOACH_WORKER_CHECKPOINT_SHARD_DIGESTER_H_

#include <atomic>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "common/named_thread.h"
#include "formats/file_digest.h"
#include "formats/tensor_digest.h"

namespace stagecoach {

// Computes the digests of a shard's bytes in a thread of its own, while another one writes them: they are read where
// they lie, so that there is nothing to hand over. Used by one thread.
class ShardDigester {
 public:
  struct Digests {
    std::vector<TensorDigest> tensors;
    std::string file;  // XXH3-128, hex
  };

  // `file` has what is in the file before the tensors, whose bytes follow in this order; they outlive this, and do not
  // change.
  ShardDigester(FileDigest file, std::vector<std::span<const std::byte>> tensors);
  ~ShardDigester() { stopping_ = true; }  // and waits for one piece of a tensor

  // Of all; waits as long as computing them takes. Once.
  Digests Finish();

 private:
  void Loop();

  const std::vector<std::span<const std::byte>> tensors_;
  FileDigest file_;                       // of the thread, until it has ended
  std::vector<TensorDigest> of_tensors_;  // likewise
  std::atomic<bool> stopping_ = false;
  NamedThread thread_;  // last: it uses all of the above
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_CHECKPOINT_SHARD_DIGESTER_H_
