#ifndef STAGECOACH_TESTS_TESTING_WORKER_AGENT_HARNESS_H_
#define STAGECOACH_TESTS_TESTING_WORKER_AGENT_HARNESS_H_

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "common/message_queue.h"
#include "tests/testing/fault_file_system.h"
#include "tests/testing/simulated_clock.h"
#include "tests/testing/worker/fake_stage.h"
#include "tests/testing/worker/fake_stage_state.h"
#include "tests/testing/worker/pipeline_program.h"
#include "worker/agent/agent.h"
#include "worker/session/received_messages.h"
#include "worker/transport/in_process/in_process_transport.h"

namespace stagecoach {

// The coordinator's end of a session. Thread-safe.
struct AcceptedSession {
  std::shared_ptr<ReceivedMessages> to_worker = std::make_shared<ReceivedMessages>(64);
  MessageQueue<v1::WorkerMessage> from_worker{64};
  std::atomic<bool> closed{false};  // by the worker
};

// Agents of a pipeline over fake stages and the in-process transport, and the coordinator's side of their sessions, by
// hand. Every message carries `job`, `epoch` and `term` as they are set. Of the agents' sessions, time is `clock`.
class AgentHarness {
 public:
  struct Worker {
    MessageQueue<std::shared_ptr<AcceptedSession>> dialled{64};
    std::shared_ptr<AcceptedSession> session;                                           // the one accepted last
    std::function<absl::Status(const char* kind, const MicroBatch& micro_batch)> hook;  // of stages; set before Assign
    std::function<absl::Status()> on_update;
    std::function<void()> on_digest;
    std::function<absl::Status(Stream&)> on_build;  // of a stage's state
    FakeStageState* state = nullptr;                // the one that the worker holds
    int num_states = 0;                             // built so far
    int num_devices = 0;
    JobLog log;
    FaultFileSystem files;
    std::unique_ptr<Agent> agent;
  };

  using Change = std::function<void(uint32_t rank, AgentOptions& options)>;

  // Starts all workers and welcomes them. `change` may give them something else than fakes.
  explicit AgentHarness(const PipelineShape& shape, Change change = {});

  Worker& worker(uint32_t rank) { return workers_[rank]; }
  const std::string& endpoint(uint32_t rank) { return endpoints_[rank]; }  // since Assign
  uint32_t num_workers() const { return static_cast<uint32_t>(workers_.size()); }

  // The next session that the worker dials, and its Hello; nobody has been welcomed yet.
  v1::Hello Accept(uint32_t rank);
  void Welcome(uint32_t rank);  // and waits until the worker has taken it
  v1::CoordinatorMessage WelcomeMessage() const;
  void Break(uint32_t rank, const absl::Status& why = absl::UnavailableError("the stream broke"));

  void Send(uint32_t rank, v1::CoordinatorMessage message);
  void AwaitRead(uint32_t rank);             // until the worker has taken all that was sent to it
  v1::WorkerMessage Receive(uint32_t rank);  // fails the test when nothing comes
  bool IsQuiet(uint32_t rank);               // nothing is there and nothing comes for a moment

  v1::CoordinatorMessage AssignStages(uint32_t rank, const v1::CommitRecord& last_commit = {});
  v1::CoordinatorMessage RunStep(uint32_t rank, uint64_t step, bool evaluation = false) const;
  static v1::CoordinatorMessage CommitStep(const v1::CommitRecord& record, bool want_digests = false,
                                           bool snapshot = false);
  static v1::CoordinatorMessage WriteCheckpoint(uint64_t step, const std::string& directory, bool from_snapshot);
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
  v1::JobSpec spec;
  v1::Welcome welcome;  // without lease and heartbeats unless set
  SimulatedClock clock;
  bool record_calls = true;  // of stages and data built from now on; false: they do not allocate

 private:
  void Start(uint32_t rank);
  AgentOptions OptionsOf(uint32_t rank);

  const PipelineShape shape_;
  const Change change_;
  const TransportFactory transports_ = InProcessTransportFactory(std::make_shared<InProcessFabric>());
  std::deque<Worker> workers_;
  std::map<uint32_t, std::string> endpoints_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_TESTING_WORKER_AGENT_HARNESS_H_
