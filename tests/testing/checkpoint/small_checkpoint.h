#ifndef STAGECOACH_TESTS_TESTING_CHECKPOINT_SMALL_CHECKPOINT_H_
#define STAGECOACH_TESTS_TESTING_CHECKPOINT_SMALL_CHECKPOINT_H_

#include <cstdint>
#include <string>

#include "common/file_system.h"
#include "formats/corpus_identity.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach {

// Writes a complete checkpoint of one shard with two small tensors into `directory`, as a job of this specification
// does after `step`. Returns its path. Aborts on errors.
std::string WriteSmallCheckpoint(FileSystem& files, const std::string& directory, uint64_t step,
                                 const v1::JobSpec& spec, const CorpusIdentity& training_data = {});

// Changes one bit of the last byte.
void FlipLastBit(const std::string& path);

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_TESTING_CHECKPOINT_SMALL_CHECKPOINT_H_
