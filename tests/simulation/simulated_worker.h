#ifndef STAGECOACH_TESTS_SIMULATION_SIMULATED_WORKER_H_
#define STAGECOACH_TESTS_SIMULATION_SIMULATED_WORKER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "stagecoach/v1/worker.pb.h"
#include "tests/simulation/fence_laws.h"
#include "tests/simulation/network.h"
#include "tests/simulation/process.h"
#include "tests/simulation/simulated_executor.h"
#include "worker/agent/agent_options.h"
#include "worker/agent/fence_filter.h"
#include "worker/agent/session_rules.h"

namespace stagecoach::simulation {

// One life of a worker daemon: worker/agent/agent.cc and session_keeper.cc in virtual time. FenceFilter, SessionRules,
// Interrupts and HeldState are the real ones; the glue around them is repeated here, without threads.
class SimulatedWorker {
 public:
  SimulatedWorker(Surroundings surroundings, const std::string& name, uint64_t incarnation,
                  const std::string& numerics_class);

  void Kill(bool silent);  // silent: the host goes with it
  void Stop() { process_.Stop(); }
  void Continue() { process_.Continue(); }
  void Leave();

  const std::string& name() const { return options_.worker.value(); }
  const std::string& host() const { return host_; }
  Incarnation incarnation() const { return options_.incarnation; }
  bool alive() const { return process_.alive(); }
  bool stopped() const { return process_.stopped(); }
  bool holds_job() const { return holds_job_; }
  bool was_answered() const {
    return was_answered_;
  }  // a heartbeat, in the present session: it would dial again at once
  DeviceTrouble& trouble() { return executor_.trouble; }

 private:
  void Pump();
  void ScheduleDue();
  void Do(SessionRules::Deed deed);
  void Exit(const absl::Status& why);

  // As SessionKeeper.
  void Dial();
  void HangUp();
  void Send(v1::WorkerMessage message);
  bool TrySend(const v1::WorkerMessage& message);
  void SendHeartbeat();

  // As Agent.
  void OnMessage(const std::shared_ptr<Connection>& from, v1::CoordinatorMessage message);
  void OnSessionEnd(const std::shared_ptr<Connection>& from, const absl::Status& why);
  void Handle(v1::CoordinatorMessage& message);
  void HandleWelcome(const v1::Welcome& welcome);
  void HandleAssign(const v1::Fence& fence, v1::AssignStages& assignment);
  void HandleAbort(const v1::Fence& fence, const v1::Abort& abort);
  void HandleRelease(const v1::Fence& fence);
  void HandleMeasure(const v1::Fence& fence, v1::MeasureLayers& order);
  void EndMeasurement();
  void NoteEndOfOtherJob(const v1::Fence& fence);
  void HandleOrder(v1::CoordinatorMessage& message);
  void HandleReply(const SimulatedExecutor::Reply& reply);
  void Quiesce();
  void DropJob(const std::string& reason);
  void BeginGeneration(const std::string& reason);
  void Submit(const v1::Fence& fence, decltype(ExecutorCommand::body) body);
  void SubmitNext();
  void MakeRoom();
  void SetJob(bool holds_job);
  void NoteCommit(const v1::CommitRecord& record);
  void Refuse(const v1::Fence& fence, const absl::Status& status);
  void SendLeaving();
  v1::WorkerMessage MakeHello() const;

  const Surroundings to_;
  const std::string host_;
  const AgentOptions options_;
  Process process_;
  FenceLaws fence_laws_;
  SessionRules rules_;
  FenceFilter filter_;
  std::shared_ptr<Connection> connection_;
  std::deque<v1::WorkerMessage> unsent_;
  absl::Duration wakes_at_ = absl::InfiniteDuration();
  bool holds_job_ = false;
  bool assigned_ = false;
  bool leaving_ = false;
  bool was_answered_ = false;
  v1::CommitRecord last_commit_;
  uint64_t generation_ = 0;
  std::deque<ExecutorCommand> waiting_;
  bool busy_ = false;
  SimulatedExecutor executor_;  // last: uses the process
};

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_SIMULATED_WORKER_H_
