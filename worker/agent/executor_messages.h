#ifndef STAGECOACH_WORKER_AGENT_EXECUTOR_MESSAGES_H_
#define STAGECOACH_WORKER_AGENT_EXECUTOR_MESSAGES_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "common/ids.h"
#include "formats/tensor_digest.h"
#include "stagecoach/v1/worker.pb.h"
#include "worker/executor/executor.h"
#include "worker/model/stage_state.h"
#include "worker/transport/transport.h"

namespace stagecoach {

// What the agent asks of the executor's thread, and what it answers: one answer to each command, in order. Small and
// plain, so that one day the two may be processes.
struct PrepareCommand {
  v1::AssignStages assignment;
};
struct ConnectCommand {
  v1::ConnectPeers peers;
};
struct RunCommand {
  v1::RunStep order;
};
struct CommitCommand {
  v1::CommitStep commit;
};
// From the state. What is to be written from a snapshot is no command: see ExecutorThread::WriteSnapshot.
struct WriteShardCommand {
  v1::WriteCheckpoint order;
};
// Destroys the epoch; applies `last_commit` if it is the verdict of what is prepared.
struct AbortCommand {
  v1::CommitRecord last_commit;
};
struct ReleaseCommand {};
// Of a worker that holds no job.
struct MeasureCommand {
  v1::MeasureLayers order;
};

struct ExecutorCommand {
  // Counts assignments, aborts and orders to measure, so that the answer to what was asked before one of them is known
  // as late.
  uint64_t generation = 0;
  TransportFence fence;  // of the message that asked: what its answer carries, whatever has come since
  std::variant<ReleaseCommand, PrepareCommand, ConnectCommand, RunCommand, CommitCommand, WriteShardCommand,
               AbortCommand, MeasureCommand>
      body;
};

struct ReleasedReply {};
struct PreparedReply {
  std::string endpoint;
  Step applied_step;
  uint64_t state_bytes = 0;
  uint64_t arena_bytes = 0;
};
struct ConnectedReply {
  std::vector<std::string> route_of_channel;
};
struct RanReply {
  Step step;
  bool evaluation = false;
  uint64_t first_sample = 0;
  const RunReport* report = nullptr;  // the executor's: until the next command
  double update_seconds = 0;          // of the update before this step
};
struct AppliedReply {
  struct Digest {
    const StateTensor* tensor = nullptr;  // the stage state's: until the next command
    TensorDigest digest;
  };
  Step step;
  uint64_t num_updates = 0;
  std::vector<Digest> digests;
};
struct ShardReply {
  v1::ShardWritten written;
};
struct AbortedReply {
  Step applied_step;
  Step prepared_step;
};

struct MeasuredReply {
  v1::LayersMeasured measured;
};

// There is no shard, and all else goes on.
struct ShardFailure {
  absl::Status status;
  Step step;
  std::string file;
};

struct ExecutorFailure {
  absl::Status status;
  Step step;
  std::string action;  // "2F0", or empty
};

struct ExecutorReply {
  uint64_t generation = 0;  // of the command
  TransportFence fence{};   // of the command
  bool is_verdict = false;  // the command carried one: its failure matters even when late
  std::variant<ReleasedReply, PreparedReply, ConnectedReply, RanReply, AppliedReply, ShardReply, ShardFailure,
               AbortedReply, MeasuredReply, ExecutorFailure>
      body{};
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_AGENT_EXECUTOR_MESSAGES_H_
