#include "tests/testing/worker/agent_harness.h"

#include <gtest/gtest.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "tests/testing/worker/fake_batch_source.h"
#include "tests/testing/worker/fake_device.h"
#include "worker/session/in_process_session.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kAnswerTimeout = absl::Seconds(20);  // never reached by a passing test
constexpr absl::Duration kQuiet = absl::Milliseconds(20);
constexpr absl::Duration kLongestSleep = absl::Milliseconds(1);

}  // namespace

AgentHarness::AgentHarness(const PipelineShape& shape, Change change) : shape_(shape), change_(std::move(change)) {
  for (uint32_t rank = 0; rank < shape.num_stages; ++rank) {
    workers_.emplace_back();
    Start(rank);
  }
}

AgentOptions AgentHarness::OptionsOf(uint32_t rank) {
  Worker& worker = workers_[rank];
  return AgentOptions{
      .worker = WorkerId(absl::StrCat("worker", rank)),
      .incarnation = Incarnation(100 + rank),
      .numerics_class = "fake",
      .memory_bytes = 1 << 20,
      .max_threads = 4,
      .build_version = "0.0.0",
      .device = "fake device",
      .host = "here",
      .pid = 4711,
      .device_factory = [&worker](const DeviceOptions&) -> absl::StatusOr<std::unique_ptr<Device>> {
        ++worker.num_devices;
        return std::make_unique<FakeDevice>();
      },
      .transport_factory = transports_,
      .batch_source_factory = [this](const v1::JobSpec&, FileSystem&) -> absl::StatusOr<std::unique_ptr<BatchSource>> {
        return std::make_unique<FakeBatchSource>(record_calls);
      },
      .stage_state_factory = [&worker](Device&, Stream& stream, const v1::JobSpec&, const v1::ModelGraph&,
                                       LayerIndex first, LayerIndex) -> absl::StatusOr<std::unique_ptr<StageState>> {
        if (worker.on_build) STAGECOACH_RETURN_IF_ERROR(worker.on_build(stream));
        auto state = std::make_unique<FakeStageState>(FakeStageState::Options{
            .name = absl::StrCat("w", first.value()), .on_update = worker.on_update, .on_digest = worker.on_digest});
        worker.state = state.get();
        ++worker.num_states;
        return state;
      },
      .stage_factory = [this, &worker](Device&, const v1::JobSpec&, const v1::ModelGraph&, const StageExtent&,
                                       const StageState& state) -> absl::StatusOr<std::unique_ptr<Stage>> {
        return std::make_unique<FakeStage>(state, FakeStage::Options{.record = record_calls, .hook = worker.hook});
      },
      .files = worker.files,
      .clock = clock,
      .session = {.redial = {.first = absl::ZeroDuration(), .longest = absl::ZeroDuration()},
                  .orphan_timeout = std::nullopt},
      .connect_timeout = kAnswerTimeout,
      .transfer_timeout = kAnswerTimeout,
      .longest_sleep = kLongestSleep,
      .log = &worker.log};
}

void AgentHarness::Start(uint32_t rank) {
  Worker& worker = workers_[rank];
  AgentOptions options = OptionsOf(rank);
  if (change_) change_(rank, options);
  worker.agent = Agent::Start(std::move(options), [&worker]() -> std::unique_ptr<Session> {
    auto session = std::make_shared<AcceptedSession>();
    EXPECT_TRUE(worker.dialled.Push(session).ok());
    return std::make_unique<InProcessSession>(
        session->to_worker,
        [session](v1::WorkerMessage message) { return session->from_worker.Push(std::move(message)); },
        [session] { session->closed.store(true); });
  });
  EXPECT_EQ(Accept(rank).worker(), absl::StrCat("worker", rank));
  Welcome(rank);
}

v1::Hello AgentHarness::Accept(uint32_t rank) {
  absl::StatusOr<std::shared_ptr<AcceptedSession>> session = workers_[rank].dialled.Pop(kAnswerTimeout);
  EXPECT_TRUE(session.ok()) << "worker " << rank << " does not dial";
  if (!session.ok()) return {};
  workers_[rank].session = *std::move(session);
  const v1::WorkerMessage message = Receive(rank);
  EXPECT_TRUE(message.has_hello()) << message.ShortDebugString();
  EXPECT_EQ(message.fence().incarnation(), 100 + rank);
  return message.hello();
}

v1::CoordinatorMessage AgentHarness::WelcomeMessage() const {
  v1::CoordinatorMessage message;
  *message.mutable_welcome() = welcome;
  return message;
}

void AgentHarness::Welcome(uint32_t rank) {
  const Agent& agent = *workers_[rank].agent;
  const uint64_t before = agent.status().num_sessions;
  Send(rank, WelcomeMessage());
  while (agent.status().num_sessions == before) std::this_thread::yield();
}

void AgentHarness::Break(uint32_t rank, const absl::Status& why) { workers_[rank].session->to_worker->End(why); }

void AgentHarness::Send(uint32_t rank, v1::CoordinatorMessage message) {
  v1::Fence& fence = *message.mutable_fence();
  fence.set_job(job);
  fence.set_epoch(epoch);
  fence.set_coordinator_term(term);
  if (fence.incarnation() == 0) fence.set_incarnation(100 + rank);
  ASSERT_TRUE(workers_[rank].session->to_worker->Push(std::move(message)).ok());
}

// It counts the message of an older term that comes last.
void AgentHarness::AwaitRead(uint32_t rank) {
  const Agent& agent = *workers_[rank].agent;
  const uint64_t before = agent.status().dropped_messages;
  --term;
  Send(rank, Abort());
  ++term;
  while (agent.status().dropped_messages == before) std::this_thread::yield();
}

v1::WorkerMessage AgentHarness::Receive(uint32_t rank) {
  absl::StatusOr<v1::WorkerMessage> message = workers_[rank].session->from_worker.Pop(kAnswerTimeout);
  EXPECT_TRUE(message.ok()) << message.status();
  return message.ok() ? *std::move(message) : v1::WorkerMessage();
}

bool AgentHarness::IsQuiet(uint32_t rank) { return !workers_[rank].session->from_worker.Pop(kQuiet).ok(); }

v1::CoordinatorMessage AgentHarness::AssignStages(uint32_t rank, const v1::CommitRecord& last_commit) {
  v1::CoordinatorMessage message;
  v1::AssignStages& assignment = *message.mutable_assign_stages();
  *assignment.mutable_spec() = spec;
  *assignment.mutable_graph() = PipelineGraph(shape_);
  *assignment.mutable_program() = PipelineProgram(shape_, rank);
  PipelineShape evaluation = shape_;
  evaluation.forward_only = true;
  *assignment.mutable_evaluation_program() = PipelineProgram(evaluation, rank);
  assignment.set_threads(threads);
  *assignment.mutable_last_commit() = last_commit;
  return message;
}

v1::CoordinatorMessage AgentHarness::RunStep(uint32_t rank, uint64_t step, bool evaluation) const {
  v1::CoordinatorMessage message;
  v1::RunStep& run = *message.mutable_run_step();
  run.set_step(step);
  run.set_program_hash(absl::StrCat(evaluation ? "evaluation" : "training", rank));
  run.set_evaluation(evaluation);
  run.set_first_sample(10 * step);
  run.set_loss_scale(1);
  for (uint32_t m = 0; m < shape_.num_micro_batches; ++m) {
    run.add_micro_batch_samples(shape_.micro_batch_size);
    run.add_loss_weight(1.0 / shape_.num_micro_batches);
  }
  return message;
}

v1::CoordinatorMessage AgentHarness::CommitStep(const v1::CommitRecord& record, bool want_digests, bool snapshot) {
  v1::CoordinatorMessage message;
  *message.mutable_commit_step()->mutable_record() = record;
  message.mutable_commit_step()->set_want_digests(want_digests);
  message.mutable_commit_step()->set_snapshot(snapshot);
  return message;
}

v1::CoordinatorMessage AgentHarness::WriteCheckpoint(uint64_t step, const std::string& directory, bool from_snapshot) {
  v1::CoordinatorMessage message;
  v1::WriteCheckpoint& order = *message.mutable_write_checkpoint();
  order.set_step(step);
  order.set_directory(directory);
  order.set_file("shard.safetensors");
  order.set_from_snapshot(from_snapshot);
  return message;
}

v1::CoordinatorMessage AgentHarness::Abort(const v1::CommitRecord& last_commit) {
  v1::CoordinatorMessage message;
  message.mutable_abort()->set_reason("a test");
  *message.mutable_abort()->mutable_last_commit() = last_commit;
  return message;
}

v1::CommitRecord AgentHarness::Record(uint64_t step, v1::Verdict verdict) {
  v1::CommitRecord record;
  record.set_step(step);
  record.set_verdict(verdict);
  record.set_clip_factor(1);
  record.set_learning_rate(0.5);
  record.set_num_updates(step);
  return record;
}

void AgentHarness::Assign(const v1::CommitRecord& last_commit) {
  for (uint32_t rank = 0; rank < num_workers(); ++rank) Send(rank, AssignStages(rank, last_commit));
  for (uint32_t rank = 0; rank < num_workers(); ++rank) {
    const v1::WorkerMessage message = Receive(rank);
    ASSERT_TRUE(message.has_stages_prepared()) << message.ShortDebugString();
    EXPECT_EQ(message.stages_prepared().applied_step(), last_commit.step());
    endpoints_[rank] = message.stages_prepared().endpoint();
  }
}

void AgentHarness::Connect() {
  v1::CoordinatorMessage message;
  for (uint32_t rank = 0; rank < num_workers(); ++rank) {
    v1::Peer& peer = *message.mutable_connect_peers()->add_peers();
    peer.set_incarnation(100 + rank);
    peer.set_endpoint(endpoints_[rank]);
  }
  for (uint32_t rank = 0; rank < num_workers(); ++rank) Send(rank, message);
  for (uint32_t rank = 0; rank < num_workers(); ++rank) {
    const v1::WorkerMessage connected = Receive(rank);
    ASSERT_TRUE(connected.has_peers_connected()) << connected.ShortDebugString();
    EXPECT_EQ(connected.peers_connected().route_of_channel_size(), PipelineProgram(shape_, rank).channels_size());
  }
}

std::vector<v1::StepPrepared> AgentHarness::PrepareStep(uint64_t step) {
  std::vector<v1::StepPrepared> prepared;
  for (uint32_t rank = 0; rank < num_workers(); ++rank) Send(rank, RunStep(rank, step));
  for (uint32_t rank = 0; rank < num_workers(); ++rank) {
    const v1::WorkerMessage message = Receive(rank);
    EXPECT_TRUE(message.has_step_prepared()) << message.ShortDebugString();
    EXPECT_EQ(message.step_prepared().step(), step);
    EXPECT_EQ(message.fence().epoch(), epoch);
    prepared.push_back(message.step_prepared());
  }
  return prepared;
}

void AgentHarness::Commit(uint64_t step) {
  for (uint32_t rank = 0; rank < num_workers(); ++rank) Send(rank, CommitStep(Record(step)));
  for (uint32_t rank = 0; rank < num_workers(); ++rank) {
    const v1::WorkerMessage message = Receive(rank);
    ASSERT_TRUE(message.has_step_applied()) << message.ShortDebugString();
    EXPECT_EQ(message.step_applied().step(), step);
    EXPECT_EQ(message.step_applied().num_updates(), step);
  }
}

}  // namespace stagecoach
