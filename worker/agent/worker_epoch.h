#ifndef STAGECOACH_WORKER_AGENT_WORKER_EPOCH_H_
#define STAGECOACH_WORKER_AGENT_WORKER_EPOCH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "stagecoach/v1/worker.pb.h"
#include "worker/agent/agent_options.h"
#include "worker/executor/executor.h"

namespace stagecoach {

// All that a worker has for one epoch of a job, and nothing that outlives it: stages, activations, transport, channels,
// the executors of the training and of the evaluation program. Executor's thread, but for Abort and run_state.
class WorkerEpoch {
 public:
  // All outlive the epoch; `states` are those of the program's stages.
  struct Context {
    const AgentOptions& options;
    Device& device;
    std::vector<StageState*> states;
    std::shared_ptr<const v1::AssignStages> assignment;
    TransportFence fence;
    TraceRing& trace;  // of the training program's runs
  };
  // INVALID_ARGUMENT: the programs do not fit each other. FAILED_PRECONDITION: the transport cannot reach the device's
  // memory. Errors of the factories.
  static absl::StatusOr<std::unique_ptr<WorkerEpoch>> Create(Context context);

  std::string endpoint() const { return transport_->endpoint(); }
  uint64_t arena_bytes() const { return arena_->bytes(); }
  const v1::StageProgram& program_of(const v1::RunStep& order) const {
    return order.evaluation() ? evaluation_program() : program();
  }

  // Connects, opens the channels and makes the executors. The route of each channel of the training program. Errors of
  // Transport and Executor.
  absl::StatusOr<std::vector<std::string>> Connect(const v1::ConnectPeers& peers);
  // FAILED_PRECONDITION: not connected, or the order is for another program. Errors of Executor::Run.
  absl::StatusOr<const RunReport*> Run(const v1::RunStep& order);
  // Where the last run ended, for an error: "2F0".
  std::string LastAction(const v1::RunStep& order) const;

  // Any thread. Where the program is that runs; none: none runs.
  std::optional<v1::RunState> run_state() const;
  // Any thread. Connect and Run return within 100 ms, and fail from now on.
  void Abort(const absl::Status& reason);

 private:
  struct OpenChannel {
    v1::ChannelSpec spec;
    std::unique_ptr<Channel> channel;
  };

  explicit WorkerEpoch(Context context) : context_(std::move(context)) {}
  absl::Status Allocate();
  absl::Status CheckEvaluation() const;
  void CollectChannels(const v1::StageProgram& program);
  Channel* FindChannel(const v1::ChannelSpec& spec);  // null: within this worker
  absl::StatusOr<std::unique_ptr<Executor>> MakeExecutor(const v1::StageProgram& program);
  absl::Status Publish();
  void SetRunning(const Executor* executor);

  const v1::StageProgram& program() const { return context_.assignment->program(); }
  const v1::StageProgram& evaluation_program() const { return context_.assignment->evaluation_program(); }
  bool has_evaluation() const { return context_.assignment->has_evaluation_program(); }

  const Context context_;
  std::unique_ptr<Stream> stream_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::unique_ptr<BatchSource> data_;
  std::unique_ptr<Memory> arena_;
  // Before the transport is gone no one may free what it reads and writes.
  std::unique_ptr<Transport> transport_;
  std::vector<OpenChannel> channels_;
  std::unique_ptr<Executor> training_, evaluation_;

  mutable Mutex mutex_;
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);
  std::vector<Executor*> abortable_ ABSL_GUARDED_BY(mutex_);
  const Executor* running_ ABSL_GUARDED_BY(mutex_) = nullptr;  // the one that runs now
  uint64_t num_runs_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_AGENT_WORKER_EPOCH_H_
