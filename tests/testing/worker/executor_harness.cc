#include "tests/testing/worker/executor_harness.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/named_thread.h"
#include "worker/transport/in_process/in_process_transport.h"

namespace stagecoach {
namespace {

std::string ChannelKey(const v1::ChannelSpec& spec) {
  return absl::StrCat(spec.from_stage(), ">", spec.to_stage(), ":", spec.kind());
}

}  // namespace

ExecutorHarness::ExecutorHarness(const PipelineShape& shape, const Options& options) : shape_(shape) {
  const TransportFactory factory = InProcessTransportFactory(std::make_shared<InProcessFabric>(clock));
  for (uint32_t rank = 0; rank < shape.num_stages; ++rank) {
    Worker& worker = workers_.emplace_back(options);
    worker.options.record = options.record;
    if (shape.recomputes) worker.options.bytes.remade = worker.options.bytes.recomputed = worker.options.bytes.saved;
    worker.stream = *worker.device.CreateStream();
    const bool tied = shape.tied && (rank == 0 || rank + 1 == shape.num_stages);
    worker.state = std::make_unique<FakeStageState>(FakeStageState::Options{
        .name = absl::StrCat("w", rank), .tied = tied, .on_update = nullptr, .on_digest = nullptr});
    worker.program = PipelineProgram(shape, rank);
    worker.arena = *worker.device.Allocate(worker.program.arena_bytes(), MemoryKind::kDevice);
    worker.transport = *factory({JobId("job"), Epoch(1), Incarnation(rank)}, WorkerRank(rank));
  }
  Connect();
  for (uint32_t rank = 0; rank < shape.num_stages; ++rank) {
    for (const v1::ChannelSpec& spec : workers_[rank].program.channels()) {
      workers_[rank].channels[ChannelKey(spec)] = *workers_[rank].transport->Open(spec);
    }
    Rebuild(rank);
  }
}

void ExecutorHarness::Connect() {
  std::vector<TransportPeer> peers;
  for (uint32_t rank = 0; rank < workers_.size(); ++rank) {
    peers.push_back({Incarnation(rank), workers_[rank].transport->endpoint()});
  }
  std::vector<NamedThread> threads;
  for (Worker& worker : workers_) {
    threads.emplace_back("connect",
                         [&worker, &peers] { EXPECT_TRUE(worker.transport->Connect(peers, absl::Seconds(20)).ok()); });
  }
}

v1::RunStep ExecutorHarness::Order(uint64_t step, uint64_t first_sample, const std::vector<uint32_t>& samples) const {
  v1::RunStep order;
  order.set_step(step);
  order.set_first_sample(first_sample);
  order.set_loss_scale(8);
  for (const uint32_t count : samples) {
    order.add_micro_batch_samples(count);
    order.add_loss_weight(1.0 / static_cast<double>(samples.size()));
  }
  return order;
}

std::vector<absl::StatusOr<const RunReport*>> ExecutorHarness::RunAll(const v1::RunStep& order) {
  std::vector<absl::StatusOr<const RunReport*>> reports(workers_.size(), absl::UnknownError("not run"));
  std::vector<NamedThread> threads;
  for (uint32_t rank = 0; rank < workers_.size(); ++rank) {
    threads.emplace_back("executor", [this, rank, &order, &reports] {
      Worker& worker = workers_[rank];
      reports[rank] = (order.evaluation() ? worker.evaluation : worker.executor)->Run(order);
    });
  }
  threads.clear();
  return reports;
}

absl::StatusOr<std::unique_ptr<Executor>> ExecutorHarness::Create(uint32_t rank, const v1::StageProgram& program) {
  return Executor::Create(program, CollaboratorsOf(rank, program));
}

Executor::Collaborators ExecutorHarness::CollaboratorsOf(uint32_t rank, const v1::StageProgram& program) {
  Worker& worker = workers_[rank];
  std::vector<Channel*> channels;
  for (const v1::ChannelSpec& spec : program.channels()) channels.push_back(worker.channels[ChannelKey(spec)].get());
  return {.device = worker.device,
          .stream = *worker.stream,
          .data = worker.data,
          .stages = {worker.stage.get()},
          .states = {worker.state.get()},
          .channels = std::move(channels),
          .arena = {worker.arena->data(), worker.arena->bytes()},
          .micro_batch_size = shape_.micro_batch_size,
          .seq_len = shape_.seq_len,
          .transfer_timeout = absl::Seconds(20),
          .clock = clock,
          .trace = program.forward_only() ? nullptr : &worker.trace,
          .epoch = Epoch(1)};
}

void ExecutorHarness::Rebuild(uint32_t rank) {
  Worker& worker = workers_[rank];
  worker.executor.reset();
  worker.stage = std::make_unique<FakeStage>(*worker.state, worker.options);
  auto executor = Create(rank, worker.program);
  ASSERT_TRUE(executor.ok()) << executor.status();
  worker.executor = *std::move(executor);
}

void ExecutorHarness::AddEvaluation(const PipelineShape& shape) {
  for (uint32_t rank = 0; rank < workers_.size(); ++rank) {
    auto executor = Create(rank, PipelineProgram(shape, rank));
    ASSERT_TRUE(executor.ok()) << executor.status();
    workers_[rank].evaluation = *std::move(executor);
  }
}

}  // namespace stagecoach
