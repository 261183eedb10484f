#ifndef STAGECOACH_COORDINATOR_JOBS_CHECKPOINT_H_
#define STAGECOACH_COORDINATOR_JOBS_CHECKPOINT_H_

#include "common/ids.h"
#include "coordinator/jobs/input.h"
#include "coordinator/jobs/job_decision.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

// How a checkpoint is made (checkpoint_times.h says when): a new directory, a shard from each member, the manifest;
// then those that need not be kept are removed. A member that cannot write its shard ends the checkpoint, and not the
// job. So does time (CheckpointTimeout), when it is written behind training: a disk that hangs would otherwise take all
// later checkpoints with it, and nobody would be told.

// Of the last committed step. From snapshots, which its CommitStep has asked for, training goes on meanwhile; otherwise
// nothing may be started until it has ended: see AwaitCheckpoint. None may be in the making.
void BeginCheckpoint(JobDecision& decision, bool from_snapshot);

// Training waits for the checkpoint in the making, or for one that begins now.
void AwaitCheckpoint(JobDecision& decision);

// The epoch has ended, and the checkpoint that was in the making with it: it is due again.
void ForgetCheckpoint(JobDecision& decision);

// The time of the one in the making is up: it fails, and training goes on. What comes of it later makes no checkpoint:
// a directory is removed, a manifest that is being written does not become the newest, and a member that has not
// answered the order for its shard gets no other order until it has. (It writes one shard at a time; and an answer
// names its step, of which there may be another attempt.)
void OnCheckpointLate(JobDecision& decision);

// False: at the wrong time or twice; nothing has changed.
bool OnDirectoryMade(JobDecision& decision, const DirectoryMade& input);
bool OnShardWritten(JobDecision& decision, WorkerRank rank, const v1::ShardWritten& message);
bool OnShardFailed(JobDecision& decision, WorkerRank rank, const v1::ShardFailed& message);
bool OnManifestWritten(JobDecision& decision, const ManifestWritten& input);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOBS_CHECKPOINT_H_
