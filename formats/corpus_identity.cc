#include "formats/corpus_identity.h"

#include <algorithm>
#include <array>
#include <memory>
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

absl::Status AddFile(const CorpusFile& of_corpus, uint64_t max_blocks, FileSystem& files, FileDigest& digest) {
  STAGECOACH_ASSIGN_OR_RETURN(const std::unique_ptr<RandomAccessFile> file, files.Open(of_corpus.path));
  if (file->size() != of_corpus.bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(of_corpus.path, " has ", file->size(), " bytes, and had ", of_corpus.bytes, " a moment ago"));
  }
  AddNumber(of_corpus.bytes, digest);
  const uint64_t num_blocks = (of_corpus.bytes + kBlockBytes - 1) / kBlockBytes;
  const uint64_t num_read = std::min(num_blocks, max_blocks);
  std::vector<char> block(kBlockBytes);
  for (uint64_t i = 0; i < num_read; ++i) {
    const uint64_t offset = BlockAt(i, num_read, num_blocks) * kBlockBytes;
    const uint64_t bytes = std::min(kBlockBytes, of_corpus.bytes - offset);
    STAGECOACH_RETURN_IF_ERROR(file->Read(offset, bytes, block.data()));
    digest.Add(block.data(), bytes);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CorpusIdentity> IdentifyCorpus(const TextCorpus& corpus, FileSystem& files, uint64_t max_bytes) {
  CorpusIdentity identity;
  for (const auto* split : {&corpus.train, &corpus.validation}) {
    for (const CorpusFile& file : *split) identity.bytes += file.bytes;
  }
  FileDigest digest;
  for (const auto* split : {&corpus.train, &corpus.validation}) {
    AddNumber(split->size(), digest);
    for (const CorpusFile& file : *split) {
      // Its share of what is read, in whole blocks, at least one.
      const auto share = static_cast<double>(max_bytes) / static_cast<double>(std::max(identity.bytes, uint64_t{1}));
      const auto blocks = static_cast<uint64_t>(share * static_cast<double>(file.bytes) / kBlockBytes);
      const uint64_t max_blocks = identity.bytes <= max_bytes ? UINT64_MAX : std::max(blocks, uint64_t{1});
      const absl::Status status = AddFile(file, max_blocks, files, digest);
      // Whatever the file system said: the user's data is what has to change.
      if (!status.ok()) return absl::InvalidArgumentError(absl::StrCat("the data: ", status.message()));
    }
  }
  identity.digest = digest.Hex();
  return identity;
}

absl::StatusOr<CorpusIdentity> IdentifyTrainingData(const TextCorpus& corpus, FileSystem& files) {
  TextCorpus training = corpus;
  training.validation.clear();
  return IdentifyCorpus(training, files);
}

}  // namespace stagecoach
