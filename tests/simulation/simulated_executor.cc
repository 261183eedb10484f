#include "tests/simulation/simulated_executor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "tests/testing/worker/fake_device.h"

namespace stagecoach::simulation {
namespace {

constexpr uint64_t kShardBytes = 1 << 16;
constexpr absl::Duration kSlowLayer = absl::Seconds(6);  // at most
constexpr absl::Duration kConnectPoll = absl::Milliseconds(5);

const SimulatedStageState& AsSimulated(const StageState& state) {
  return static_cast<const SimulatedStageState&>(state);
}

bool IsVerdict(const ExecutorCommand& command) {
  return std::holds_alternative<CommitCommand>(command.body) || std::holds_alternative<AbortCommand>(command.body);
}

}  // namespace

SimulatedExecutor::SimulatedExecutor(Surroundings surroundings, Process& process, const std::string& host,
                                     const AgentOptions& options, std::function<void(Reply)> on_reply,
                                     std::function<void()> on_room)
    : to_(surroundings),
      process_(process),
      host_(host),
      options_(options),
      on_reply_(std::move(on_reply)),
      on_room_(std::move(on_room)),
      clock_(to_.world),
      interrupts_(clock_),
      held_(options_) {
  options_.device_factory = [](const DeviceOptions&) -> absl::StatusOr<std::unique_ptr<Device>> {
    return std::make_unique<FakeDevice>();
  };
  options_.stage_state_factory = [this](Device&, Stream&, const v1::JobSpec& spec, const v1::ModelGraph&,
                                        LayerIndex first, LayerIndex last) { return MakeState(spec, first, last); };
}

std::unique_ptr<StageState> SimulatedExecutor::MakeState(const v1::JobSpec& spec, LayerIndex first, LayerIndex last) {
  return std::make_unique<SimulatedStageState>(SimulatedStageState::Options{
      .seed = spec.model().init().seed(),
      .first_layer = first,
      .last_layer = last,
      .apply_twice = to_.world.bug == PlantedBug::kApplyTwice,
      .on_update = [this](const SimulatedStageState& state, const v1::CommitRecord& record) {
        to_.laws.OnUpdate(options_.worker.value(), job_of_state_, state, record);
      }});
}

void SimulatedExecutor::Die(bool silent) {
  if (epoch_ != nullptr) to_.data.Close(epoch_->transport, silent);
}

std::optional<v1::RunState> SimulatedExecutor::run_state() const {
  if (run_ == nullptr) return std::nullopt;
  v1::RunState state = run_->state();
  state.set_run(epoch_->num_runs);
  return state;
}

void SimulatedExecutor::Submit(ExecutorCommand command) {
  STAGECOACH_CHECK(!current_.has_value());
  current_ = std::move(command);
  std::visit([this](auto& body) { Begin(body); }, current_->body);
}

void SimulatedExecutor::Answer(Body body) {
  Reply reply{current_->generation, current_->fence, IsVerdict(*current_), std::move(body)};
  progress_ = {current_->fence.job, held_.applied_step(), held_.prepared_step()};
  current_.reset();
  on_reply_(std::move(reply));
}

void SimulatedExecutor::Later(absl::Duration longest, std::function<void()> take) {
  process_.After(to_.world.random.Between(absl::Microseconds(100), longest) + trouble.command_slowness,
                 std::move(take));
}

void SimulatedExecutor::Forgetting(const std::function<void()>& forget) {
  const JobId job = job_of_state_;
  const Step prepared = held_.prepared_step();
  forget();
  if (prepared == Step(0) || held_.prepared_step() == prepared || held_.applied_step() >= prepared) return;
  to_.laws.OnGradientsDropped(options_.worker.value(), job, prepared.value());
}

void SimulatedExecutor::DestroyEpoch() {
  run_.reset();
  if (epoch_ == nullptr) return;
  epoch_->interrupt.reset();
  to_.data.Close(epoch_->transport, /*silent=*/false);
  epoch_.reset();
}

void SimulatedExecutor::Begin(ReleaseCommand& /*command*/) {
  Later(absl::Milliseconds(5), [this] {
    DestroyEpoch();
    held_.Release();  // whatever was voted on: the job has ended
    Answer(ReleasedReply{});
  });
}

void SimulatedExecutor::Begin(PrepareCommand& command) {
  Later(absl::Milliseconds(40), [this, &command] {
    const absl::Status prepared = Prepare(command);
    if (!prepared.ok()) return Answer(ExecutorFailure{prepared, Step(0), ""});
    v1::WorkerMessage message;
    v1::StagesPrepared& said = *message.mutable_stages_prepared();
    said.set_endpoint(absl::StrCat(epoch_->transport));
    said.set_applied_step(held_.applied_step().value());
    said.set_state_bytes(held_.state_bytes());
    Answer(std::move(message));
  });
}

absl::Status SimulatedExecutor::Prepare(const PrepareCommand& command) {
  DestroyEpoch();
  if (to_.world.bug == PlantedBug::kDropPreparedGradients) held_.SetPrepared(Step(0));
  const auto assignment = std::make_shared<const v1::AssignStages>(command.assignment);
  const bool has_state = held_.has_state() && job_of_state_ == current_->fence.job;
  const Step was_prepared = held_.prepared_step();
  absl::Status prepared;
  Forgetting([&] {
    job_of_state_ = current_->fence.job;
    prepared = held_.Prepare(assignment, interrupts_, current_->generation);
  });
  if (has_state && (prepared.ok() || absl::IsFailedPrecondition(prepared))) {
    to_.laws.OnJoined(options_.worker.value(), job_of_state_, held_.applied_step().value(), assignment->last_commit());
  }
  STAGECOACH_RETURN_IF_ERROR(prepared);
  if (has_state) to_.world.Cover("a state was kept over epochs");
  if (was_prepared != Step(0)) {
    to_.world.Cover(was_prepared == held_.applied_step() ? "an assignment brought the verdict"
                                                         : "a prepared step was run again");
  }
  OpenEpoch(assignment);
  return absl::OkStatus();
}

void SimulatedExecutor::OpenEpoch(std::shared_ptr<const v1::AssignStages> assignment) {
  epoch_ = std::make_unique<EpochState>();
  epoch_->assignment = std::move(assignment);
  epoch_->transport =
      to_.data.Open({current_->fence.job, current_->fence.epoch, current_->fence.incarnation},
                    {.worker = options_.worker.value(),
                     .is_reachable = [this] { return process_.runs() && !to_.network.IsIsolated(host_); },
                     .wake =
                         [this] {
                           process_.After(absl::ZeroDuration(), [this] {
                             if (run_ != nullptr) run_->Wake();
                           });
                         }});
  epoch_->interrupt =
      std::make_unique<Interrupts::Registration>(interrupts_, current_->generation, [this](const absl::Status& reason) {
        to_.data.Close(epoch_->transport, /*silent=*/false);
        if (run_ != nullptr) run_->Interrupt(reason);
      });
}

void SimulatedExecutor::Begin(MeasureCommand& command) {
  auto measured = std::make_shared<v1::LayersMeasured>();
  measured->set_attempt(command.order.attempt());
  Later(absl::Milliseconds(1), [this, measured] { MeasureNext(measured); });
}

// Some layers take longer than the coordinator waits, and some cannot be measured.
void SimulatedExecutor::MeasureNext(const std::shared_ptr<v1::LayersMeasured>& measured) {
  if (!interrupts_.Check(current_->generation).ok()) {
    to_.world.Cover("a measurement was ended");
    return Answer(ReleasedReply{});
  }
  const v1::MeasureLayers& order = std::get<MeasureCommand>(current_->body).order;
  if (measured->layers_size() == order.layers_size()) {
    to_.world.Cover("layers were measured");
    v1::WorkerMessage message;
    *message.mutable_layers_measured() = *measured;
    return Answer(std::move(message));
  }
  const bool is_slow = to_.world.random.Chance(0.02);
  Later(is_slow ? kSlowLayer : absl::Milliseconds(100), [this, measured] {
    v1::LayerSeconds& seconds = *measured->add_layers();
    if (!to_.world.random.Chance(0.05)) seconds.set_forward(1e-3);
    MeasureNext(measured);
  });
}

void SimulatedExecutor::Begin(ConnectCommand& /*command*/) {
  connect_deadline_ = process_.now() + options_.connect_timeout;
  Later(absl::Milliseconds(10), [this] { PollConnect(); });
}

void SimulatedExecutor::PollConnect() {
  absl::Status status = interrupts_.Check(current_->generation);
  if (status.ok() && epoch_ == nullptr) status = absl::FailedPreconditionError("no stages are assigned");
  if (status.ok() && epoch_->connected) status = absl::FailedPreconditionError("the peers are connected already");
  if (!status.ok()) return Answer(ExecutorFailure{status, Step(0), ""});
  const v1::ConnectPeers& peers = std::get<ConnectCommand>(current_->body).peers;
  if (to_.data.TryConnect(epoch_->transport, peers)) {
    epoch_->connected = true;
    v1::WorkerMessage message;
    message.mutable_peers_connected();
    return Answer(std::move(message));
  }
  if (process_.now() >= connect_deadline_) {
    return Answer(ExecutorFailure{absl::UnavailableError("a peer does not answer"), Step(0), ""});
  }
  process_.After(kConnectPoll, [this] { PollConnect(); });
}

absl::Status SimulatedExecutor::CheckMayRun(const v1::RunStep& order) const {
  STAGECOACH_RETURN_IF_ERROR(interrupts_.Check(current_->generation));
  if (epoch_ == nullptr) return absl::FailedPreconditionError("no stages are assigned");
  if (!epoch_->connected) return absl::FailedPreconditionError("the peers are not connected");
  const v1::AssignStages& assignment = *epoch_->assignment;
  const auto& program = order.evaluation() ? assignment.evaluation_program() : assignment.program();
  if (order.program_hash() != program.content_hash()) return absl::FailedPreconditionError("another program");
  return order.evaluation() ? held_.CheckMayEvaluate(Step(order.step())) : held_.CheckMayRun(Step(order.step()));
}

void SimulatedExecutor::Begin(RunCommand& command) {
  process_.After(absl::Microseconds(100), [this, &command] {
    const v1::RunStep& order = command.order;
    if (const absl::Status may = CheckMayRun(order); !may.ok()) {
      return Answer(ExecutorFailure{may, Step(order.step()), ""});
    }
    if (run_ != nullptr) to_.world.violations.Report("one program at a time", options_.worker.value());
    ++epoch_->num_runs;
    const v1::AssignStages& assignment = *epoch_->assignment;
    run_ = std::make_shared<ProgramRun>(
        ProgramRun::Context{.world = to_.world,
                            .process = process_,
                            .data = to_.data,
                            .transport = epoch_->transport,
                            .program = order.evaluation() ? assignment.evaluation_program() : assignment.program(),
                            .graph = assignment.graph(),
                            .state = static_cast<SimulatedStageState&>(*held_.states().front()),
                            .trouble = trouble,
                            .on_end = [this](const absl::Status& status) { EndRun(status); }},
        order);
    run_->Start();
  });
}

void SimulatedExecutor::EndRun(const absl::Status& status) {
  const v1::RunStep& order = std::get<RunCommand>(current_->body).order;
  const Step step(order.step());
  const std::shared_ptr<ProgramRun> run = std::exchange(run_, nullptr);
  if (!status.ok()) return Answer(ExecutorFailure{status, step, run->state().action()});
  v1::WorkerMessage message;
  if (order.evaluation()) {
    v1::EvaluationDone& done = *message.mutable_evaluation_done();
    done.set_step(order.step());
    done.set_first_sample(order.first_sample());
    for (const v1::LossPart& part : run->loss_parts()) *done.add_loss_parts() = part;
  } else {
    held_.SetPrepared(step);
    *message.mutable_step_prepared() = run->Vote();
  }
  Answer(std::move(message));
}

template <typename Visit>
void SimulatedExecutor::ForEachReport(Visit visit) const {
  for (const StageState* held : held_.states()) {
    const SimulatedStageState& state = AsSimulated(*held);
    for (size_t i = 0; i < state.values.size(); ++i) {
      const auto layer = static_cast<int>(state.first_layer().value() + i);
      for (const v1::TensorDigestReport& report :
           ReportsOf(epoch_->assignment->graph().layers(layer), state.values[i], state.num_updates())) {
        visit(report);
      }
    }
  }
}

void SimulatedExecutor::Begin(CommitCommand& command) {
  Later(absl::Milliseconds(6), [this, &command] {
    const v1::CommitStep& commit = command.commit;
    const Step step(commit.record().step());
    if (const absl::Status applied = held_.Commit(commit.record()); !applied.ok()) {
      return Answer(ExecutorFailure{applied, step, ""});
    }
    v1::WorkerMessage message;
    v1::StepApplied& said = *message.mutable_step_applied();
    said.set_step(step.value());
    said.set_num_updates(held_.num_updates());
    if (commit.want_digests() && epoch_ != nullptr) {
      ForEachReport([&](const v1::TensorDigestReport& report) { *said.add_digests() = report; });
    }
    if (commit.snapshot() && epoch_ != nullptr && !epoch_->snapshot_is_written) {
      epoch_->snapshot = v1::ShardWritten();
      epoch_->snapshot->set_step(step.value());
      ForEachReport([&](const v1::TensorDigestReport& report) { *epoch_->snapshot->add_tensors() = report; });
    }
    Answer(std::move(message));
  });
}

void SimulatedExecutor::Begin(WriteShardCommand& command) {
  Later(absl::Milliseconds(30), [this, &command] {
    const v1::WriteCheckpoint order = command.order;
    absl::StatusOr<v1::ShardWritten> shard = MakeShard(order);
    const bool hangs = to_.world.random.Chance(to_.world.disks_hang);
    if (hangs && shard.ok() && order.from_snapshot()) return FinishShardBehind(order, *std::move(shard));
    Answer(FinishShard(order, std::move(shard)));
  });
}

// The disk hangs, and what follows goes on. Nobody is told when the epoch has ended meanwhile.
void SimulatedExecutor::FinishShardBehind(const v1::WriteCheckpoint& order, v1::ShardWritten shard) {
  epoch_->snapshot_is_written = true;
  const auto finish = [this, order, shard = std::move(shard), generation = current_->generation,
                       fence = current_->fence, transport = epoch_->transport] {
    if (epoch_ == nullptr || epoch_->transport != transport) return;
    epoch_->snapshot_is_written = false;
    const absl::Status may_go_on = interrupts_.Check(generation);
    v1::WorkerMessage message =
        may_go_on.ok() ? FinishShard(order, shard) : FinishShard(order, absl::StatusOr<v1::ShardWritten>(may_go_on));
    on_reply_({generation, fence, /*is_verdict=*/false, std::move(message), /*is_behind=*/true});
  };
  process_.After(to_.world.random.Between(absl::ZeroDuration(), kLongestHang), finish);
  current_.reset();
  on_room_();
}

// What the disk makes of it.
v1::WorkerMessage SimulatedExecutor::FinishShard(const v1::WriteCheckpoint& order,
                                                 absl::StatusOr<v1::ShardWritten> shard) {
  if (shard.ok() && !to_.world.files.AddShard(order.directory(), order.file())) {
    shard = absl::NotFoundError(absl::StrCat(order.directory(), " is not there"));
  }
  to_.world.Cover(shard.ok() ? "a shard was written" : "a shard could not be written",
                  order.from_snapshot() ? " from a snapshot" : " from the state");
  v1::WorkerMessage message;
  if (shard.ok()) {
    *message.mutable_shard_written() = *std::move(shard);
    return message;
  }
  v1::ShardFailed& failed = *message.mutable_shard_failed();
  failed.set_step(order.step());
  failed.set_file(order.file());
  failed.set_code(static_cast<int>(shard.status().code()));
  failed.set_message(std::string(shard.status().message()));
  return message;
}

absl::StatusOr<v1::ShardWritten> SimulatedExecutor::MakeShard(const v1::WriteCheckpoint& order) const {
  STAGECOACH_RETURN_IF_ERROR(interrupts_.Check(current_->generation));
  if (!held_.has_state() || epoch_ == nullptr) return absl::FailedPreconditionError("no state is held");
  if (epoch_->snapshot_is_written) return absl::ResourceExhaustedError("another shard is being written");
  v1::ShardWritten written;
  if (order.from_snapshot()) {
    if (!epoch_->snapshot || epoch_->snapshot->step() != order.step()) {
      return absl::FailedPreconditionError(absl::StrCat("there is no snapshot of step ", order.step()));
    }
    written = *epoch_->snapshot;
  } else {
    for (const StageState* state : held_.states()) {
      if (state->applied_step() == Step(order.step())) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("asked to write step ", order.step(), ", step ", state->applied_step().value(), " is here"));
    }
    ForEachReport([&](const v1::TensorDigestReport& report) { *written.add_tensors() = report; });
  }
  if (to_.world.random.Chance(to_.world.shards_fail)) return absl::ResourceExhaustedError("the disk is full");
  written.set_step(order.step());
  written.set_file(order.file());
  written.set_bytes(kShardBytes);
  written.set_digest(std::string(32, 'a'));
  return written;
}

void SimulatedExecutor::Begin(AbortCommand& command) {
  Later(absl::Milliseconds(10), [this, &command] {
    DestroyEpoch();
    if (to_.world.bug == PlantedBug::kDropPreparedGradients) held_.SetPrepared(Step(0));
    const Step was_prepared = held_.prepared_step();
    if (const absl::Status applied = held_.ApplyIfPrepared(command.last_commit); !applied.ok()) {
      return Answer(ExecutorFailure{applied, Step(command.last_commit.step()), ""});
    }
    if (was_prepared != Step(0)) {
      to_.world.Cover(was_prepared == held_.applied_step() ? "an abort brought the verdict"
                                                           : "an abort left prepared gradients alone");
    }
    if (held_.has_state()) {
      to_.laws.OnAborted(options_.worker.value(), job_of_state_, held_.applied_step().value(), command.last_commit);
    }
    v1::WorkerMessage message;
    message.mutable_aborted()->set_applied_step(held_.applied_step().value());
    message.mutable_aborted()->set_prepared_step(held_.prepared_step().value());
    Answer(std::move(message));
  });
}

}  // namespace stagecoach::simulation
