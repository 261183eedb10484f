#ifndef STAGECOACH_WORKER_MODEL_STAGE_STATE_H_
#define STAGECOACH_WORKER_MODEL_STAGE_STATE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "formats/tensor_digest.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/plan.pb.h"
#include "stagecoach/v1/worker.pb.h"
#include "worker/device/device.h"
#include "worker/model/layer.h"

namespace stagecoach {

// One tensor of the durable state. `name` is global: a parameter's, or NAME.exp_avg and so on for optimizer state.
struct StateTensor {
  std::string name;
  Tensor tensor;
  bool optimizer_state = false;
  bool owned = true;  // false: a tied copy whose owner is on a lower stage; not reported, not written
};

struct NormReport {
  std::string name;  // of the tensor
  double squared_norm = 0;
};

// Of a state, without the padding that no tensor here has: elements x the size of one.
struct StageStateBytes {
  uint64_t parameters = 0;  // a tied pair on one stage is one value
  uint64_t gradients = 0;   // ... with an accumulator for each use
  uint64_t optimizer = 0;   // ... and one set of moments
};

// What a stage keeps between steps: parameters, gradient accumulators, optimizer state, and the step and update count
// it is at. Apart from Stage, since a shadow's keeper holds the same without any layer. Allocates once, in Create:
// planned bytes are StageMemory's parameters + gradients + optimizer. Executor's thread only.
class StageState {
 public:
  // Layers [first_layer, last_layer] of `graph`. Values by the initializers, a function of (spec.model.init.seed, name,
  // element), so the same for any cut. A tied tensor whose owner and later use are both here is one value with two
  // accumulators. INVALID_ARGUMENT: no such layers, a tensor that two layers have without a tie, more than one tied
  // tensor, an unknown optimizer. RESOURCE_EXHAUSTED: the device has not enough memory. ABORTED: `stream`, which the
  // values are made on, was cancelled.
  static absl::StatusOr<std::unique_ptr<StageState>> Create(Device& device, Stream& stream, const v1::JobSpec& spec,
                                                            const v1::ModelGraph& graph, LayerIndex first_layer,
                                                            LayerIndex last_layer);
  virtual ~StageState() = default;

  // In the order of the layer's ParameterSpecs.
  virtual std::span<const Parameter> parameters(LayerIndex layer) const = 0;

  // Accumulators to zero: before the first backward of a step.
  virtual absl::Status EnqueueZeroGradients(Stream& stream) = 0;

  // The accumulator of this stage's use of the tied tensor (lowest layer's use when both are here); empty: nothing is
  // tied here.
  virtual Tensor tied_gradient() const = 0;
  // After it, the accumulator holds owner's use + later use, in that order. `other` is the received accumulator of the
  // other stage; empty when both uses are here.
  virtual absl::Status EnqueueReduceTie(Stream& stream, const Tensor& other) = 0;

  // Squared norms of owned tensors (of the accumulators, unscaled by the clip factor) and the number of non-finite
  // elements. Waits for the device. Storage is reused: valid until the next call.
  struct GradientReport {
    std::span<const NormReport> norms;
    uint64_t num_non_finite = 0;
  };
  virtual absl::StatusOr<GradientReport> ReportGradients(Stream& stream) = 0;

  // Applies or skips by the record. Idempotent: a state that is at record.step() is left alone, and a call that was
  // ABORTED half-way is finished by the next one, on another stream, without a tensor being updated twice.
  // FAILED_PRECONDITION when it is at neither record.step() - 1 nor record.step(), or when the record's number of
  // updates does not follow this state's. INVALID_ARGUMENT: no verdict, or numbers that make no update.
  virtual absl::Status Update(Stream& stream, const v1::CommitRecord& record) = 0;

  // The caller has written the values of every tensor of tensors(), tied copies included, as they were after `step`
  // steps with `num_updates` updates: the state goes on from there, as if it had made those steps itself. Waits for
  // nothing: the caller has seen to it that its writing is complete. FAILED_PRECONDITION: the state is not as Create
  // made it, but at a step of its own. INVALID_ARGUMENT: more updates than steps.
  virtual absl::Status StartFrom(Step step, uint64_t num_updates) = 0;

  virtual const StageStateBytes& bytes() const = 0;
  virtual Step applied_step() const = 0;
  virtual uint64_t num_updates() const = 0;
  // Parameters, then optimizer state, each in bytewise name order.
  virtual std::span<const StateTensor> tensors() const = 0;
  virtual absl::StatusOr<TensorDigest> Digest(Stream& stream, const Tensor& tensor) = 0;
};

// The errors of StageState::StartFrom.
absl::Status CheckMayStartFrom(const StageState& state, Step step, uint64_t num_updates);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_MODEL_STAGE_STATE_H_
