#ifndef STAGECOACH_TESTS_SIMULATION_SIMULATED_EXECUTOR_H_
#define STAGECOACH_TESTS_SIMULATION_SIMULATED_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stagecoach/v1/worker.pb.h"
#include "tests/simulation/data_plane.h"
#include "tests/simulation/job_laws.h"
#include "tests/simulation/network.h"
#include "tests/simulation/process.h"
#include "tests/simulation/program_run.h"
#include "tests/simulation/world.h"
#include "worker/agent/agent_options.h"
#include "worker/agent/executor_messages.h"
#include "worker/agent/held_state.h"
#include "worker/agent/interrupts.h"

namespace stagecoach::simulation {

// What a worker lives in.
struct Surroundings {
  World& world;
  Network& network;
  DataPlane& data;
  JobLaws& laws;
};

// worker/agent/executor_thread.cc in virtual time: the same commands in the same order on the real HeldState, whose
// stages are of the toy model; only the programs run in a ProgramRun. One command at a time.
class SimulatedExecutor {
 public:
  struct Reply {
    uint64_t generation = 0;
    TransportFence fence;
    bool is_verdict = false;
    std::variant<ReleasedReply, v1::WorkerMessage, ExecutorFailure> body;
    bool is_behind = false;  // of a command that has made room for others
  };
  // `on_reply` is called once for each command, never from within Submit; `on_room` when the command goes on behind
  // those that follow.
  SimulatedExecutor(Surroundings surroundings, Process& process, const std::string& host, const AgentOptions& options,
                    std::function<void(Reply)> on_reply, std::function<void()> on_room);
  ~SimulatedExecutor() { DestroyEpoch(); }

  void Submit(ExecutorCommand command);
  Interrupts& interrupts() { return interrupts_; }
  std::optional<v1::RunState> run_state() const;
  // How far the state was at the end of the last command, and of which job.
  struct Progress {
    JobId job;
    Step applied_step;
    Step prepared_step;
  };
  const Progress& progress() const { return progress_; }
  // The process is killed: its peers see their connections reset, or, when the host is gone, nothing.
  void Die(bool silent);

  DeviceTrouble trouble;

 private:
  // Of one epoch.
  struct EpochState {
    DataPlane::TransportId transport = 0;
    std::shared_ptr<const v1::AssignStages> assignment;
    bool connected = false;
    uint64_t num_runs = 0;
    std::optional<v1::ShardWritten> snapshot;  // what a shard of it would report
    bool snapshot_is_written = false;          // now: the disk hangs
    std::unique_ptr<Interrupts::Registration> interrupt;
  };
  using Body = decltype(Reply::body);

  void Answer(Body body);
  // `take` is done after a while that is at most `longest`.
  void Later(absl::Duration longest, std::function<void()> take);
  void Begin(ReleaseCommand& command);
  void Begin(PrepareCommand& command);
  void Begin(ConnectCommand& command);
  void Begin(RunCommand& command);
  void Begin(CommitCommand& command);
  void Begin(WriteShardCommand& command);
  void Begin(AbortCommand& command);
  void Begin(MeasureCommand& command);
  void MeasureNext(const std::shared_ptr<v1::LayersMeasured>& measured);
  absl::Status Prepare(const PrepareCommand& command);
  void OpenEpoch(std::shared_ptr<const v1::AssignStages> assignment);
  void PollConnect();
  absl::Status CheckMayRun(const v1::RunStep& order) const;
  void EndRun(const absl::Status& status);
  absl::StatusOr<v1::ShardWritten> MakeShard(const v1::WriteCheckpoint& order) const;
  v1::WorkerMessage FinishShard(const v1::WriteCheckpoint& order, absl::StatusOr<v1::ShardWritten> shard);
  void FinishShardBehind(const v1::WriteCheckpoint& order, v1::ShardWritten shard);
  void DestroyEpoch();
  std::unique_ptr<StageState> MakeState(const v1::JobSpec& spec, LayerIndex first, LayerIndex last);
  // Calls `forget`, and tells the laws when that drops what was voted on.
  void Forgetting(const std::function<void()>& forget);
  template <typename Visit>
  void ForEachReport(Visit visit) const;

  const Surroundings to_;
  Process& process_;
  const std::string host_;
  AgentOptions options_;
  const std::function<void(Reply)> on_reply_;
  const std::function<void()> on_room_;
  WorldClock clock_;
  Interrupts interrupts_;
  HeldState held_;
  JobId job_of_state_;
  std::unique_ptr<EpochState> epoch_;
  std::shared_ptr<ProgramRun> run_;
  std::optional<ExecutorCommand> current_;
  Progress progress_;
  absl::Duration connect_deadline_;
};

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_SIMULATED_EXECUTOR_H_
