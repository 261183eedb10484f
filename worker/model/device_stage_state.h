#ifndef STAGECOACH_WORKER_MODEL_DEVICE_STAGE_STATE_H_
#define STAGECOACH_WORKER_MODEL_DEVICE_STAGE_STATE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "worker/model/stage_state.h"
#include "worker/optimizer/optimizer.h"

namespace stagecoach {

// The state of a stage in three allocations of one device: values, accumulators, moments, each packed in the order of
// layers; frozen layers have values alone. A fourth, small and in host memory, receives norms and digests. Executor's
// thread only.
class DeviceStageState : public StageState {
 public:
  // See StageState::Create.
  static absl::StatusOr<std::unique_ptr<DeviceStageState>> Create(Device& device, Stream& stream,
                                                                  const v1::JobSpec& spec, const v1::ModelGraph& graph,
                                                                  LayerIndex first_layer, LayerIndex last_layer);

  std::span<const Parameter> parameters(LayerIndex layer) const override;
  absl::Status EnqueueZeroGradients(Stream& stream) override;
  Tensor tied_gradient() const override;
  absl::Status EnqueueReduceTie(Stream& stream, const Tensor& other) override;
  absl::StatusOr<GradientReport> ReportGradients(Stream& stream) override;
  absl::Status Update(Stream& stream, const v1::CommitRecord& record) override;
  absl::Status StartFrom(Step step, uint64_t num_updates) override;
  const StageStateBytes& bytes() const override { return bytes_; }
  Step applied_step() const override { return applied_step_; }
  uint64_t num_updates() const override { return num_updates_; }
  std::span<const StateTensor> tensors() const override { return tensors_; }
  absl::StatusOr<TensorDigest> Digest(Stream& stream, const Tensor& tensor) override;

 private:
  // One tensor, whatever the number of its uses.
  struct HeldTensor {
    const v1::ParameterSpec* spec = nullptr;  // of the first use here
    bool owned = true;
    bool tied = false;    // with another use in the model, here or not
    bool trained = true;  // false: its layer is frozen, and it has no gradient and no moments
    Tensor value;
    Tensor gradient;        // accumulator of the first use here; of all after EnqueueReduceTie
    Tensor later_gradient;  // of the later use; empty unless both are here
    std::vector<Tensor> moments;
  };
  struct Use {
    size_t held = 0;  // index into held_
    const v1::ParameterSpec* spec = nullptr;
    bool later = false;
  };

  DeviceStageState(Device& device, const v1::ModelGraph& graph, LayerIndex first_layer, LayerIndex last_layer);
  // In this order, by Create.
  absl::Status CollectTensors();
  absl::Status Allocate();
  void MakeParameters();
  void ListTensors();
  absl::Status Initialize(Stream& stream, uint64_t seed);

  absl::Status CollectUse(uint32_t layer, const v1::ParameterSpec& spec);
  template <typename Visit>
  void ForEachTrainedUse(Visit visit) const;
  absl::Status EnqueueUpdates(Stream& stream, const v1::CommitRecord& record);
  absl::Status WaitComplete(Stream& stream);

  Device& device_;
  const v1::ModelGraph graph_;  // the specs of parameters() live here
  const LayerIndex first_layer_;
  const LayerIndex last_layer_;
  std::unique_ptr<Optimizer> optimizer_;

  std::vector<HeldTensor> held_;        // in the order of first use
  std::vector<std::vector<Use>> uses_;  // [layers here], in the order of their specs
  std::vector<std::vector<Parameter>> parameters_;
  std::vector<StateTensor> tensors_;
  size_t tied_ = SIZE_MAX;  // index into held_ of the one that is trained; SIZE_MAX: none

  std::unique_ptr<Memory> values_, gradients_, moments_, report_memory_;
  Tensor all_gradients_;
  // Pieces of report_memory_.
  Tensor squared_norms_;   // f64 [held]
  Tensor num_non_finite_;  // i64 [held]
  Tensor digest_;          // u64 [2]
  std::vector<NormReport> norms_;

  StageStateBytes bytes_;
  Step applied_step_;
  uint64_t num_updates_ = 0;
  size_t next_update_ = 0;  // index into held_: where an interrupted Update goes on
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_MODEL_DEVICE_STAGE_STATE_H_
