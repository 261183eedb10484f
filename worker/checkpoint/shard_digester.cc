#include "worker/checkpoint/shard_digester.h"

#include <algorithm>
#include <utility>

namespace stagecoach {
namespace {

// Read twice, by two digests: small enough to stay in a cache of one core. A multiple of the digest's words.
constexpr size_t kPieceBytes = size_t{1} << 18;

}  // namespace

ShardDigester::ShardDigester(FileDigest file, std::vector<std::span<const std::byte>> tensors)
    : tensors_(std::move(tensors)), file_(std::move(file)), thread_("shard-digest", [this] { Loop(); }) {}

ShardDigester::Digests ShardDigester::Finish() {
  thread_.Join();
  return {.tensors = std::move(of_tensors_), .file = file_.Hex()};
}

void ShardDigester::Loop() {
  for (const std::span<const std::byte> tensor : tensors_) {
    TensorDigest digest;
    for (size_t at = 0; at < tensor.size();) {
      if (stopping_) return;
      const auto piece = tensor.subspan(at, std::min(kPieceBytes, tensor.size() - at));
      digest = digest + DigestBytes(piece, at / 4);
      file_.Add(piece.data(), piece.size());
      at += piece.size();
    }
    of_tensors_.push_back(digest);
  }
}

}  // namespace stagecoach
