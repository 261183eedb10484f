#ifndef STAGECOACH_COORDINATOR_RESUME_RESUME_POINT_H_
#define STAGECOACH_COORDINATOR_RESUME_RESUME_POINT_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "common/file_system.h"
#include "formats/corpus_identity.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/journal.pb.h"

namespace stagecoach {

struct ResumePoint {
  std::shared_ptr<const v1::JobResumed> resumed = nullptr;  // `job` is not set; null: it starts at step 0
  uint64_t micro_batch_size = 0;  // of the job that wrote the checkpoint, which one that has none keeps; 0: step 0
};

// Where a job is to start, by checkpoint.resume, with the data that is there now: from a checkpoint, every byte of
// which has been read and found right, or at step 0. `auto` takes the newest that verifies, and notes those that
// do not; it never starts at step 0 when there is one.
//   NOT_FOUND            the checkpoint that was named is not there
//   DATA_LOSS            it, or each one there is, is damaged
//   FAILED_PRECONDITION  it is of a job that this one cannot go on with; the message says which keys differ
//   UNKNOWN              the file system does not say what is there: an I/O error, no permission, no directory
// and errors of `training_data`, which is asked only when there is a checkpoint to compare it with. Nothing is
// concluded from UNKNOWN: an older checkpoint would lose steps, and step 0 all of them. Reads whole checkpoints: it
// takes as long as reading them does.
absl::StatusOr<ResumePoint> FindResumePoint(FileSystem& files, const v1::JobSpec& spec,
                                            const std::function<absl::StatusOr<CorpusIdentity>()>& training_data);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_RESUME_RESUME_POINT_H_
