#ifndef STAGECOACH_TESTS_TESTING_WORKER_AGENT_HARNESS_H_
#define STAGECOACH_TESTS_TESTING_WORKER_AGENT_HARNESS_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "common/message_queue.h"
#include "tests/testing/worker/fake_stage.h"
#include "tests/testing/worker/fake_stage_state.h"
#include "tests/testing/worker/pipeline_program.h"
#include "worker/agent/agent.h"
#include "worker/transport/in_process/in_process_transport.h"

namespace stagecoach {

// Both ends of a session as queues. Thread-safe.
struct SessionQueues {
  MessageQueue<v1::CoordinatorMessage> to_worker{64};
  MessageQueue<v1::WorkerMessage> from_worker{64};
};

// Agents of a pipeline over fake stages and the in-process transport, and the coordinator's side of their sessions, by
// hand. Every message carries `job`, `epoch` and `term` as they are set.
class AgentHarness {
 public:
  struct Worker {
    std::shared_ptr<SessionQueues> session;
    std::function<absl::Status(const char* kind, const MicroBatch& micro_batch)> hook;  // of stages; set before Assign
    std::function<absl::Status()> on_update;
    FakeStageState* state = nullptr;  // the one that the worker holds
    int num_states = 0;               // built so far
    int num_devices = 0;
    std::unique_ptr<Agent> agent;
  };

  explicit AgentHarness(const PipelineShape& shape);

  Worker& worker(uint32_t rank) { return workers_[rank]; }
  uint32_t num_workers() const { return static_cast<uint32_t>(workers_.size()); }

  void Send(uint32_t rank, v1::CoordinatorMessage message);
  v1::WorkerMessage Receive(uint32_t rank);  // fails the test when nothing comes
  bool IsQuiet(uint32_t rank);               // nothing is there and nothing comes for a moment

  v1::CoordinatorMessage AssignStages(uint32_t rank, const v1::CommitRecord& last_commit = {});
  v1::CoordinatorMessage RunStep(uint32_t rank, uint64_t step, bool evaluation = false) const;
  static v1::CoordinatorMessage CommitStep(const v1::CommitRecord& record, bool want_digests = false);
  static v1::CoordinatorMessage Abort(const v1::CommitRecord& last_commit = {});
  static v1::CommitRecord Record(uint64_t step, v1::Verdict verdict = v1::VERDICT_APPLY);

  // All workers, and their answers.
  void Assign(const v1::CommitRecord& last_commit = {});
  void Connect();
  std::vector<v1::StepPrepared> PrepareStep(uint64_t step);
  void Commit(uint64_t step);

  std::string job = "job";
  uint64_t epoch = 1;
  uint64_t term = 1;
  uint32_t threads = 1;
  bool record_calls = true;  // of stages and data built from now on; false: they do not allocate

 private:
  void Start(uint32_t rank, const TransportFactory& transports);

  const PipelineShape shape_;
  std::deque<Worker> workers_;
  std::map<uint32_t, std::string> endpoints_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_TESTING_WORKER_AGENT_HARNESS_H_
