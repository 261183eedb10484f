#ifndef STAGECOACH_COORDINATOR_TESTING_FAKE_WORKER_H_
#define STAGECOACH_COORDINATOR_TESTING_FAKE_WORKER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/file_system.h"
#include "common/ids.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

// A second for each sample, half of that for each backward.
v1::LayerSeconds FakeLayerSeconds(const v1::LayerCall& call);

// Answers a coordinator as a worker does, without a device: norms are functions of tensor names, losses of the step,
// and the state's digest of the commit records applied, in their order. Keeps its state over epochs, and what it has
// prepared until it knows the verdict. Used by one thread.
class FakeWorker {
 public:
  // With `files` it writes its shards.
  FakeWorker(std::string name, Incarnation incarnation, FileSystem* files = nullptr);

  const WorkerId& id() const { return id_; }
  Incarnation incarnation() const { return incarnation_; }
  v1::Hello hello() const;  // with what it holds
  // Nothing: the message needs no answer, or is older than the epoch.
  std::optional<v1::WorkerMessage> Answer(const v1::CoordinatorMessage& message);

  // Called with each vote before it is sent.
  std::function<void(v1::StepPrepared&)> edit_vote = [](v1::StepPrepared&) {};
  // What calls of a layer take.
  std::function<v1::LayerSeconds(const v1::LayerCall&)> measure = FakeLayerSeconds;
  std::string numerics_class = "fake";
  std::string device = "cpu";
  uint32_t max_threads = 2;
  absl::Status disk;        // an error: that of every shard
  bool disk_hangs = false;  // orders for shards are not answered; what the newest would have been told, with its fence:
  std::optional<v1::WorkerMessage> late_shard;

 private:
  void AnswerMeasurement(const v1::MeasureLayers& order, v1::LayersMeasured& measured) const;
  void AnswerAssignment(const v1::CoordinatorMessage& message, v1::WorkerMessage& answer);
  void AnswerRunStep(const v1::RunStep& run, v1::WorkerMessage& answer);
  void AddLossParts(const v1::RunStep& run, double loss, google::protobuf::RepeatedPtrField<v1::LossPart>& parts) const;
  void AnswerCommit(const v1::CommitStep& commit, v1::WorkerMessage& answer);
  void Restore(const v1::AssignStages& assignment);
  void NoteCommit(const v1::CommitRecord& record);
  void Release();
  void AnswerWriteCheckpoint(const v1::WriteCheckpoint& write, v1::WorkerMessage& answer);
  // Parameters of the layers held here, each with one moment.
  void AddDigests(uint64_t state, google::protobuf::RepeatedPtrField<v1::TensorDigestReport>& reports) const;
  template <typename Visit>
  void ForEachOwnedParameter(Visit visit) const;

  const WorkerId id_;
  const Incarnation incarnation_;
  FileSystem* const files_;
  std::string job_;  // empty: none
  uint64_t epoch_ = 0;
  uint64_t applied_step_ = 0;
  uint64_t prepared_step_ = 0;  // 0: none
  uint64_t num_updates_ = 0;
  uint64_t state_ = 0;
  // Of the newest commit that asked for one.
  struct Snapshot {
    uint64_t step = 0;  // 0: none
    uint64_t state = 0;
  };
  Snapshot snapshot_;
  v1::CommitRecord last_commit_;
  v1::AssignStages assignment_;
};

// Of a fake worker's parameter: a function of the name.
double FakeSquaredNorm(const std::string& name);
double FakeLoss(uint64_t step);
double FakeValidationLoss(uint64_t step);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_TESTING_FAKE_WORKER_H_
