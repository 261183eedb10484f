#include "formats/corpus_identity.h"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "formats/file_digest.h"

namespace stagecoach {
namespace {

constexpr uint64_t kBlockBytes = uint64_t{64} << 10;

// Little-endian on every machine.
void AddNumber(uint64_t number, FileDigest& digest) {
  std::array<unsigned char, 8> bytes{};
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(number >> (8 * i));
  digest.Add(bytes.data(), bytes.size());
}

// Of `num_blocks` blocks of a file, every one, or so many that are spread evenly, the first and the last among them.
uint64_t BlockAt(uint64_t index, uint64_t num_read, uint64_t num_blocks) {
  if (num_read == num_blocks || num_read == 1) return index;
  return index * (num_blocks - 1) / (num_read - 1);
}

// An identity in the making.
struct Part {
  uint64_t bytes = 0;  // of all of its files
  uint64_t max_bytes = 0;
  FileDigest digest = {};
};

// A file's share of what is read, in whole blocks, at least one.
uint64_t NumRead(const Part& part, uint64_t file_bytes) {
  const uint64_t num_blocks = (file_bytes + kBlockBytes - 1) / kBlockBytes;
  if (part.bytes <= part.max_bytes) return num_blocks;
  const auto share = static_cast<double>(part.max_bytes) / static_cast<double>(part.bytes);
  const auto blocks = static_cast<uint64_t>(share * static_cast<double>(file_bytes) / kBlockBytes);
  return std::min(num_blocks, std::max(blocks, uint64_t{1}));
}

// Goes through the blocks of a file that count for a part, in order.
class BlockCursor {
 public:
  BlockCursor(Part& part, uint64_t file_bytes)
      : part_(part), num_blocks_((file_bytes + kBlockBytes - 1) / kBlockBytes), num_read_(NumRead(part, file_bytes)) {}

  uint64_t block() const { return next_ == num_read_ ? UINT64_MAX : BlockAt(next_, num_read_, num_blocks_); }
  void Take(uint64_t block, const void* data, uint64_t bytes) {
    if (block != this->block()) return;
    part_.digest.Add(data, bytes);
    ++next_;
  }

 private:
  Part& part_;
  const uint64_t num_blocks_;
  const uint64_t num_read_;
  uint64_t next_ = 0;
};

// To all parts; a block that counts for two is read once.
absl::Status AddFile(const CorpusFile& of_corpus, FileSystem& files, std::span<Part* const> parts) {
  STAGECOACH_ASSIGN_OR_RETURN(const std::unique_ptr<RandomAccessFile> file, files.Open(of_corpus.path));
  if (file->size() != of_corpus.bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(of_corpus.path, " has ", file->size(), " bytes, and had ", of_corpus.bytes, " a moment ago"));
  }
  std::vector<BlockCursor> cursors;
  for (Part* part : parts) {
    AddNumber(of_corpus.bytes, part->digest);
    cursors.emplace_back(*part, of_corpus.bytes);
  }
  std::vector<char> data(kBlockBytes);
  while (true) {
    uint64_t block = UINT64_MAX;
    for (const BlockCursor& cursor : cursors) block = std::min(block, cursor.block());
    if (block == UINT64_MAX) return absl::OkStatus();
    const uint64_t bytes = std::min(kBlockBytes, of_corpus.bytes - block * kBlockBytes);
    STAGECOACH_RETURN_IF_ERROR(file->Read(block * kBlockBytes, bytes, data.data()));
    for (BlockCursor& cursor : cursors) cursor.Take(block, data.data(), bytes);
  }
}

uint64_t SumOfBytes(std::span<const CorpusFile> files) {
  uint64_t sum = 0;
  for (const CorpusFile& file : files) sum += file.bytes;
  return sum;
}

// A part has, for each split, the number of its files, and the files.
absl::Status AddSplit(std::span<const CorpusFile> split, FileSystem& files, std::span<Part* const> parts) {
  for (Part* part : parts) AddNumber(split.size(), part->digest);
  for (const CorpusFile& file : split) {
    const absl::Status status = AddFile(file, files, parts);
    // Whatever the file system said: the user's data is what has to change.
    if (!status.ok()) return absl::InvalidArgumentError(absl::StrCat("the data: ", status.message()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CorpusIdentities> IdentifyCorpus(const TextCorpus& corpus, FileSystem& files, uint64_t max_bytes) {
  Part training{.bytes = SumOfBytes(corpus.train), .max_bytes = max_bytes};
  Part all{.bytes = training.bytes + SumOfBytes(corpus.validation), .max_bytes = max_bytes};
  Part* const both[] = {&all, &training};
  STAGECOACH_RETURN_IF_ERROR(AddSplit(corpus.train, files, both));
  STAGECOACH_RETURN_IF_ERROR(AddSplit(corpus.validation, files, std::span(both).first(1)));
  AddNumber(0, training.digest);
  return CorpusIdentities{.all = {all.bytes, all.digest.Hex()}, .training = {training.bytes, training.digest.Hex()}};
}

absl::StatusOr<CorpusIdentity> IdentifyTrainingData(const TextCorpus& corpus, FileSystem& files) {
  TextCorpus training = corpus;
  training.validation.clear();
  STAGECOACH_ASSIGN_OR_RETURN(CorpusIdentities identities, IdentifyCorpus(training, files));
  return std::move(identities.training);
}

}  // namespace stagecoach
