#ifndef STAGECOACH_TESTS_TESTING_WORKER_EXECUTOR_HARNESS_H_
#define STAGECOACH_TESTS_TESTING_WORKER_EXECUTOR_HARNESS_H_

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "tests/testing/simulated_clock.h"
#include "tests/testing/worker/fake_batch_source.h"
#include "tests/testing/worker/fake_device.h"
#include "tests/testing/worker/fake_stage.h"
#include "tests/testing/worker/fake_stage_state.h"
#include "tests/testing/worker/pipeline_program.h"
#include "worker/executor/executor.h"
#include "worker/executor/trace_ring.h"
#include "worker/transport/transport.h"

namespace stagecoach {

// Executors of a whole pipeline over fake stages and the in-process transport, each run on a thread of its own.
class ExecutorHarness {
 public:
  struct Options {
    bool asynchronous = false;  // devices
    bool record = true;         // calls of stages and data; false: they do not allocate
  };
  struct Worker {
    explicit Worker(const Options& how) : device(how.asynchronous), data(how.record) {}

    FakeDevice device;
    FakeBatchSource data;
    std::unique_ptr<Stream> stream;
    std::unique_ptr<FakeStageState> state;
    FakeStage::Options options;  // of the stage; call Rebuild after a change
    std::unique_ptr<FakeStage> stage;
    std::unique_ptr<Memory> arena;
    std::unique_ptr<Transport> transport;
    std::map<std::string, std::unique_ptr<Channel>> channels;
    v1::StageProgram program;
    TraceRing trace;  // of `executor`
    std::unique_ptr<Executor> executor, evaluation;
  };

  explicit ExecutorHarness(const PipelineShape& shape) : ExecutorHarness(shape, Options()) {}
  ExecutorHarness(const PipelineShape& shape, const Options& options);

  Worker& worker(uint32_t rank) { return workers_[rank]; }
  // Loss weights are 1 / num_micro_batches each, the loss scale is 8.
  v1::RunStep Order(uint64_t step, uint64_t first_sample, const std::vector<uint32_t>& samples) const;
  std::vector<absl::StatusOr<const RunReport*>> RunAll(const v1::RunStep& order);

  absl::StatusOr<std::unique_ptr<Executor>> Create(uint32_t rank, const v1::StageProgram& program);
  Executor::Collaborators CollaboratorsOf(uint32_t rank, const v1::StageProgram& program);
  void Rebuild(uint32_t rank);  // stage and executor
  void AddEvaluation(const PipelineShape& shape);

  SimulatedClock clock;  // of the reports and of transfers

 private:
  void Connect();

  const PipelineShape shape_;
  std::deque<Worker> workers_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_TESTING_WORKER_EXECUTOR_HARNESS_H_
