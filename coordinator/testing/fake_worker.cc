#include "coordinator/testing/fake_worker.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/protocol_version.h"

namespace stagecoach {
namespace {

constexpr uint64_t kParameterElements = 4;
constexpr uint64_t kShardBytes = 4096;

uint64_t Hash(const std::string& text) {
  uint64_t hash = 1469598103934665603ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

}  // namespace

double FakeSquaredNorm(const std::string& name) { return static_cast<double>(Hash(name) % 1000 + 1) * 1e-3; }
double FakeLoss(uint64_t step) { return 4.0 / static_cast<double>(step); }
double FakeValidationLoss(uint64_t step) { return 5.0 / static_cast<double>(step); }

v1::LayerSeconds FakeLayerSeconds(const v1::LayerCall& call) {
  v1::LayerSeconds seconds;
  seconds.set_forward(static_cast<double>(call.micro_batch_size()));
  seconds.set_backward_input(seconds.forward() / 2);
  seconds.set_backward_weight(seconds.forward() / 2);
  return seconds;
}

FakeWorker::FakeWorker(std::string name, Incarnation incarnation, FileSystem* files)
    : id_(std::move(name)), incarnation_(incarnation), files_(files) {}

v1::Hello FakeWorker::hello() const {
  v1::Hello hello;
  hello.set_worker(id_.value());
  hello.set_numerics_class(numerics_class);
  hello.set_device(device);
  hello.set_memory_bytes(uint64_t{1} << 30);
  hello.set_max_threads(max_threads);
  hello.set_protocol_version(kProtocolVersion);
  if (job_.empty()) return hello;
  v1::HeldJob& held = *hello.mutable_held();
  held.set_job(job_);
  held.set_epoch(epoch_);
  held.set_applied_step(applied_step_);
  held.set_prepared_step(prepared_step_);
  *held.mutable_last_commit() = last_commit_;
  return hello;
}

std::optional<v1::WorkerMessage> FakeWorker::Answer(const v1::CoordinatorMessage& message) {
  v1::WorkerMessage answer;
  *answer.mutable_fence() = message.fence();
  STAGECOACH_CHECK(message.fence().incarnation() == incarnation_.value());
  if (message.fence().job() == job_ && message.fence().epoch() < epoch_) return std::nullopt;
  if (message.has_assign_stages()) {
    AnswerAssignment(message, answer);
  } else if (message.has_connect_peers()) {
    answer.mutable_peers_connected();
  } else if (message.has_run_step()) {
    AnswerRunStep(message.run_step(), answer);
  } else if (message.has_commit_step()) {
    AnswerCommit(message.commit_step(), answer);
  } else if (message.has_write_checkpoint()) {
    AnswerWriteCheckpoint(message.write_checkpoint(), answer);
    if (disk_hangs) {
      late_shard = std::move(answer);
      return std::nullopt;
    }
  } else if (message.has_abort()) {
    if (message.fence().job() == job_) epoch_ = message.fence().epoch();
    NoteCommit(message.abort().last_commit());
    answer.mutable_aborted()->set_applied_step(applied_step_);
    answer.mutable_aborted()->set_prepared_step(prepared_step_);
  } else if (message.has_measure_layers()) {
    AnswerMeasurement(message.measure_layers(), *answer.mutable_layers_measured());
  } else if (message.has_read_trace()) {
    answer.mutable_trace_part()->set_request(message.read_trace().request());
    answer.mutable_trace_part()->set_last(true);
    answer.mutable_trace_part()->set_kept_job(job_);
  } else {
    if (message.has_release()) Release();
    return std::nullopt;
  }
  return answer;
}

void FakeWorker::AnswerMeasurement(const v1::MeasureLayers& order, v1::LayersMeasured& measured) const {
  measured.set_attempt(order.attempt());
  for (const v1::LayerCall& call : order.layers()) *measured.add_layers() = measure(call);
}

void FakeWorker::AnswerAssignment(const v1::CoordinatorMessage& message, v1::WorkerMessage& answer) {
  if (message.fence().job() != job_) Release();
  job_ = message.fence().job();
  epoch_ = message.fence().epoch();
  assignment_ = message.assign_stages();
  NoteCommit(assignment_.last_commit());
  snapshot_ = {};
  if (applied_step_ == 0 && assignment_.has_restore()) Restore(assignment_);
  prepared_step_ = 0;  // its verdict is known: it will be run again
  if (applied_step_ != assignment_.last_commit().step()) {
    answer.mutable_failure()->set_code(static_cast<int>(absl::StatusCode::kFailedPrecondition));
    answer.mutable_failure()->set_message(absl::StrCat("the state is of step ", applied_step_));
    return;
  }
  answer.mutable_stages_prepared()->set_endpoint(absl::StrCat("endpoint of ", id_.value()));
  answer.mutable_stages_prepared()->set_applied_step(applied_step_);
}

// What the step's records had made is not known here: a function of what is restored.
void FakeWorker::Restore(const v1::AssignStages& assignment) {
  last_commit_ = assignment.last_commit();
  applied_step_ = last_commit_.step();
  num_updates_ = last_commit_.num_updates();
  state_ = Hash(assignment.restore().SerializeAsString());
}

// Applies what it has prepared when this is the verdict on it.
void FakeWorker::NoteCommit(const v1::CommitRecord& record) {
  if (record.step() > last_commit_.step()) last_commit_ = record;
  if (record.step() == 0 || record.step() != prepared_step_) return;
  prepared_step_ = 0;
  applied_step_ = record.step();
  num_updates_ = record.num_updates();
  state_ = Hash(absl::StrCat(state_, record.SerializeAsString()));
}

void FakeWorker::Release() {
  job_.clear();
  epoch_ = applied_step_ = prepared_step_ = num_updates_ = state_ = 0;
  snapshot_ = {};
  last_commit_.Clear();
}

template <typename Visit>
void FakeWorker::ForEachOwnedParameter(Visit visit) const {
  for (const v1::StageSlots& stage : assignment_.program().stages()) {
    for (uint32_t layer = stage.first_layer(); layer <= stage.last_layer(); ++layer) {
      for (const v1::ParameterSpec& parameter : assignment_.graph().layers(static_cast<int>(layer)).parameters()) {
        if (!parameter.has_tied_to_layer()) visit(parameter.name());
      }
    }
  }
}

void FakeWorker::AnswerRunStep(const v1::RunStep& run, v1::WorkerMessage& answer) {
  if (run.evaluation()) {
    v1::EvaluationDone& done = *answer.mutable_evaluation_done();
    done.set_step(run.step());
    done.set_first_sample(run.first_sample());
    AddLossParts(run, FakeValidationLoss(run.step()), *done.mutable_loss_parts());
    return;
  }
  STAGECOACH_CHECK(run.step() == applied_step_ + 1 && prepared_step_ == 0);
  prepared_step_ = run.step();
  v1::StepPrepared& vote = *answer.mutable_step_prepared();
  vote.set_step(run.step());
  ForEachOwnedParameter([&](const std::string& name) {
    v1::SquaredNorm& norm = *vote.add_squared_norms();
    norm.set_name(name);
    norm.set_value(FakeSquaredNorm(name));
  });
  AddLossParts(run, FakeLoss(run.step()), *vote.mutable_loss_parts());
  vote.mutable_busy_seconds()->set_forward(0.25);
  vote.mutable_busy_seconds()->set_backward_input(0.25);
  vote.mutable_busy_seconds()->set_p2p_wait(0.5);
  vote.mutable_busy_seconds()->set_total(1);
  edit_vote(vote);
}

void FakeWorker::AddLossParts(const v1::RunStep& run, double loss,
                              google::protobuf::RepeatedPtrField<v1::LossPart>& parts) const {
  const v1::StageProgram& program = assignment_.program();
  const int last_layer = assignment_.graph().layers_size() - 1;
  if (program.stages(program.stages_size() - 1).last_layer() != static_cast<uint32_t>(last_layer)) return;
  for (int i = 0; i < run.micro_batch_samples_size(); ++i) {
    v1::LossPart& part = *parts.Add();
    part.set_micro_batch(static_cast<uint32_t>(i));
    part.set_value(run.loss_weight(i) * loss);
  }
}

void FakeWorker::AnswerCommit(const v1::CommitStep& commit, v1::WorkerMessage& answer) {
  NoteCommit(commit.record());
  STAGECOACH_CHECK(applied_step_ == commit.record().step());
  v1::StepApplied& applied = *answer.mutable_step_applied();
  applied.set_step(commit.record().step());
  applied.set_num_updates(num_updates_);
  if (commit.want_digests()) AddDigests(state_, *applied.mutable_digests());
  if (commit.snapshot()) snapshot_ = {applied_step_, state_};
}

void FakeWorker::AnswerWriteCheckpoint(const v1::WriteCheckpoint& write, v1::WorkerMessage& answer) {
  const Snapshot source = write.from_snapshot() ? snapshot_ : Snapshot{applied_step_, state_};
  STAGECOACH_CHECK(source.step == write.step());
  if (!disk.ok()) {
    v1::ShardFailed& failed = *answer.mutable_shard_failed();
    failed.set_step(write.step());
    failed.set_file(write.file());
    failed.set_code(static_cast<int>(disk.code()));
    failed.set_message(std::string(disk.message()));
    return;
  }
  v1::ShardWritten& written = *answer.mutable_shard_written();
  written.set_step(write.step());
  written.set_file(write.file());
  written.set_bytes(kShardBytes);
  written.set_digest(std::string(32, 'a'));
  AddDigests(source.state, *written.mutable_tensors());
  if (files_ == nullptr) return;
  const absl::Status status =
      WriteFileAtomically(*files_, absl::StrCat(write.directory(), "/", write.file()), std::string(kShardBytes, 'x'));
  STAGECOACH_CHECK(status.ok());
}

void FakeWorker::AddDigests(uint64_t state, google::protobuf::RepeatedPtrField<v1::TensorDigestReport>& reports) const {
  ForEachOwnedParameter([&](const std::string& parameter) {
    for (const bool optimizer_state : {false, true}) {
      v1::TensorDigestReport& report = *reports.Add();
      report.set_name(optimizer_state ? parameter + ".momentum" : parameter);
      report.set_dtype(v1::DTYPE_F32);
      report.add_shape(kParameterElements);
      report.set_low(Hash(report.name()));
      report.set_high(state);
      report.set_optimizer_state(optimizer_state);
    }
  });
}

}  // namespace stagecoach
