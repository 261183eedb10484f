#ifndef STAGECOACH_WORKER_CHECKPOINT_STATE_RESTORER_H_
#define STAGECOACH_WORKER_CHECKPOINT_STATE_RESTORER_H_

#include <functional>
#include <span>

#include "absl/status/status.h"
#include "common/file_system.h"
#include "stagecoach/v1/worker.pb.h"
#include "worker/device/device.h"
#include "worker/model/stage_state.h"

namespace stagecoach {

// Which states are to be as a checkpoint has them.
struct Restoration {
  FileSystem& files;
  Device& device;
  Stream& stream;
  std::span<StageState* const> states;             // as StageState::Create made them
  const v1::AssignStages& assignment;              // its restore, graph and optimizer
  const std::function<absl::Status()>& may_go_on;  // asked before each piece of a tensor
};

// Reads every tensor of the states, tied copies included, from the shard that has it: how the checkpoint was cut does
// not matter. Then the states are at the checkpoint's step. Verified: the manifest by restore.manifest_digest, every
// tensor that is read by the manifest. Memory: a manifest, headers, and one piece of a tensor. Executor's thread.
//   DATA_LOSS            the checkpoint is not whole, or not what was verified
//   FAILED_PRECONDITION  it is of another model or optimizer: a tensor is missing, is there and has no place, or has
//                        another dtype or shape
//   and errors of the file system, of the device and of may_go_on. Messages name file and tensor. After an error the
//   states are of no use.
absl::Status RestoreStates(const Restoration& restoration);

// How a worker restores its states: RestoreStates, unless a test has another idea.
using StateRestorer = std::function<absl::Status(const Restoration& restoration)>;

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_CHECKPOINT_STATE_RESTORER_H_
