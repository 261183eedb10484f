#include "worker/checkpoint/state_restorer.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/quoted.h"
#include "common/status_macros.h"
#include "formats/checkpoint_manifest.h"
#include "formats/checkpoint_reader.h"
#include "worker/optimizer/optimizer.h"

namespace stagecoach {
namespace {

// A device that has not taken a piece by then is lost.
constexpr absl::Duration kDeviceTimeout = absl::Minutes(10);

std::string Describe(v1::DType dtype, const google::protobuf::RepeatedField<uint64_t>& shape) {
  return absl::StrCat(DTypeName(dtype), "[", absl::StrJoin(shape, ", "), "]");
}

// Of one call of RestoreStates.
class Restorer {
 public:
  Restorer(const Restoration& restoration, CheckpointReader& reader)
      : restoration_(restoration),
        reader_(reader),
        manifest_path_(absl::StrCat(restoration.assignment.restore().directory(), "/", kManifestFileName)) {}

  // That it is a checkpoint of this model and of this optimizer, by the names alone. All of the model's, so that every
  // worker says the same.
  absl::Status CheckNames() const {
    const v1::AssignStages& assignment = restoration_.assignment;
    STAGECOACH_ASSIGN_OR_RETURN(const std::unique_ptr<Optimizer> optimizer,
                                Optimizer::Create(assignment.spec().optimizer()));
    std::set<std::string> parameters, moments;
    for (const v1::LayerSpec& layer : assignment.graph().layers()) {
      for (const v1::ParameterSpec& parameter : layer.parameters()) {
        parameters.insert(parameter.name());
        if (layer.frozen()) continue;
        for (const char* moment : optimizer->moment_names())
          moments.insert(absl::StrCat(parameter.name(), ".", moment));
      }
    }
    for (const std::string& name : parameters) STAGECOACH_RETURN_IF_ERROR(Find(name, false).status());
    for (const std::string& name : moments) STAGECOACH_RETURN_IF_ERROR(Find(name, true).status());
    for (const v1::CheckpointTensor& tensor : reader_.manifest().tensors()) {
      if ((tensor.optimizer_state() ? moments : parameters).contains(tensor.name())) continue;
      return DoesNotFit(tensor.name(), absl::StrCat("it is in the checkpoint, and ",
                                                    tensor.optimizer_state() ? OptimizersDiffer()
                                                                             : "the job's model has no such one"));
    }
    return absl::OkStatus();
  }

  absl::Status Restore(StageState& state) {
    for (const StateTensor& tensor : state.tensors()) {
      STAGECOACH_ASSIGN_OR_RETURN(const v1::CheckpointTensor* saved, Find(tensor.name, tensor.optimizer_state));
      STAGECOACH_RETURN_IF_ERROR(CheckForm(tensor.tensor, *saved));
      STAGECOACH_RETURN_IF_ERROR(reader_.Read(*saved, [&](uint64_t offset, std::span<const std::byte> piece) {
        return Put(tensor.tensor.as<std::byte>() + offset, piece);
      }));
    }
    const v1::CheckpointManifest& manifest = reader_.manifest();
    return WithContext(state.StartFrom(Step(manifest.step()), manifest.num_updates()), manifest_path_);
  }

 private:
  absl::Status DoesNotFit(absl::string_view tensor, absl::string_view message) const {
    return absl::FailedPreconditionError(absl::StrCat(manifest_path_, ": tensor ", Quoted(tensor), ": ", message));
  }

  std::string OptimizersDiffer() const {
    return absl::StrCat("the checkpoint was written with optimizer ",
                        Quoted(reader_.manifest().spec().optimizer().name()), ", the job has ",
                        Quoted(restoration_.assignment.spec().optimizer().name()));
  }

  absl::StatusOr<const v1::CheckpointTensor*> Find(const std::string& name, bool optimizer_state) const {
    const v1::CheckpointTensor* const found = FindCheckpointTensor(reader_.manifest(), name);
    if (found != nullptr && found->optimizer_state() == optimizer_state) return found;
    if (optimizer_state) return DoesNotFit(name, absl::StrCat("the checkpoint does not have it: ", OptimizersDiffer()));
    return DoesNotFit(name, "the job's model has it, the checkpoint does not");
  }

  absl::Status CheckForm(const Tensor& wanted, const v1::CheckpointTensor& saved) const {
    const google::protobuf::RepeatedField<uint64_t> shape(wanted.dims.begin(), wanted.dims.begin() + wanted.rank);
    if (wanted.dtype == saved.dtype() &&
        std::equal(shape.begin(), shape.end(), saved.shape().begin(), saved.shape().end())) {
      return absl::OkStatus();
    }
    return DoesNotFit(saved.name(),
                      absl::StrCat("in ", reader_.PathOf(saved), " it is ", Describe(saved.dtype(), saved.shape()),
                                   ", here it must be ", Describe(wanted.dtype, shape)));
  }

  // `piece` is used again when this returns.
  absl::Status Put(std::byte* to, std::span<const std::byte> piece) {
    STAGECOACH_RETURN_IF_ERROR(restoration_.may_go_on());
    Device& device = restoration_.device;
    STAGECOACH_RETURN_IF_ERROR(device.EnqueueCopy(restoration_.stream, to, piece.data(), piece.size()));
    if (device.capabilities().completes_at_enqueue) return absl::OkStatus();
    STAGECOACH_ASSIGN_OR_RETURN(const EventRef copied, device.Record(restoration_.stream));
    return device.WaitComplete(copied, kDeviceTimeout);
  }

  const Restoration& restoration_;
  CheckpointReader& reader_;
  const std::string manifest_path_;
};

}  // namespace

absl::Status RestoreStates(const Restoration& restoration) {
  const v1::RestoreState& restore = restoration.assignment.restore();
  STAGECOACH_RETURN_IF_ERROR(restoration.may_go_on());
  STAGECOACH_ASSIGN_OR_RETURN(
      const std::unique_ptr<CheckpointReader> reader,
      CheckpointReader::Open(restoration.files, restore.directory(), restore.manifest_digest()));
  Restorer restorer(restoration, *reader);
  STAGECOACH_RETURN_IF_ERROR(restorer.CheckNames());
  for (StageState* state : restoration.states) STAGECOACH_RETURN_IF_ERROR(restorer.Restore(*state));
  return absl::OkStatus();
}

}  // namespace stagecoach
