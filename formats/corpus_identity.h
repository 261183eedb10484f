#ifndef STAGECOACH_FORMATS_CORPUS_IDENTITY_H_
#define STAGECOACH_FORMATS_CORPUS_IDENTITY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/file_system.h"
#include "formats/text_corpus.h"

namespace stagecoach {

// What the files of a corpus hold, in their order and split; not where they are or when they were written. A job that
// goes on after a restart must find the data that it began with.
struct CorpusIdentity {
  uint64_t bytes = 0;
  std::string digest;  // XXH3-128, hex; empty: not known

  bool operator==(const CorpusIdentity&) const = default;
};

// Sizes count in full. So do contents up to this many bytes of a corpus; of a larger one, blocks that are spread evenly
// over each file and add up to about as many, so that a restart does not wait for all of the data to be read.
inline constexpr uint64_t kMaxIdentityBytes = uint64_t{256} << 20;

struct CorpusIdentities {
  CorpusIdentity all;
  CorpusIdentity training;  // of the training files alone: what a job that resumes must find, whatever validates it
};

// Reads what counts for either once. INVALID_ARGUMENT (names the path): a file cannot be read, or is not as long as the
// corpus says. `max_bytes`: for tests.
absl::StatusOr<CorpusIdentities> IdentifyCorpus(const TextCorpus& corpus, FileSystem& files,
                                                uint64_t max_bytes = kMaxIdentityBytes);
// Its `training` alone: reads the training files only.
absl::StatusOr<CorpusIdentity> IdentifyTrainingData(const TextCorpus& corpus, FileSystem& files);

}  // namespace stagecoach

#endif  // STAGECOACH_FORMATS_CORPUS_IDENTITY_H_
