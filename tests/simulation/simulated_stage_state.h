#ifndef STAGECOACH_TESTS_SIMULATION_SIMULATED_STAGE_STATE_H_
#define STAGECOACH_TESTS_SIMULATION_SIMULATED_STAGE_STATE_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "stagecoach/v1/job.pb.h"
#include "tests/simulation/toy_model.h"
#include "worker/model/stage_state.h"

namespace stagecoach::simulation {

// The layers of a stage in the toy model: a number each, and an accumulator each.
class SimulatedStageState final : public StageState {
 public:
  // Called after each update, idempotent ones included.
  using OnUpdate = std::function<void(const SimulatedStageState&, const v1::CommitRecord&)>;

  struct Options {
    uint64_t seed = 0;  // of the initial values
    LayerIndex first_layer, last_layer;
    bool apply_twice = false;  // a planted bug
    OnUpdate on_update;
  };
  explicit SimulatedStageState(Options options) : options_(std::move(options)) {
    for (uint32_t layer = options_.first_layer.value(); layer <= options_.last_layer.value(); ++layer) {
      values.push_back(InitialValue(options_.seed, layer));
    }
    gradients.resize(values.size());
  }

  std::span<const Parameter> parameters(LayerIndex /*layer*/) const override { return {}; }
  absl::Status EnqueueZeroGradients(Stream& /*stream*/) override {
    gradients.assign(values.size(), 0);
    return absl::OkStatus();
  }
  Tensor tied_gradient() const override { return {}; }
  absl::Status EnqueueReduceTie(Stream& /*stream*/, const Tensor& /*other*/) override { return absl::OkStatus(); }
  absl::StatusOr<GradientReport> ReportGradients(Stream& /*stream*/) override { return GradientReport{}; }

  absl::Status Update(Stream& /*stream*/, const v1::CommitRecord& record) override {
    const bool again = record.step() == applied_step_.value();
    if (!again && record.step() != applied_step_.value() + 1) {
      return absl::FailedPreconditionError("not the next step");
    }
    if (!again || options_.apply_twice) {
      for (size_t i = 0; i < values.size(); ++i) values[i] = UpdatedValue(values[i], gradients[i], record);
    }
    applied_step_ = Step(record.step());
    num_updates_ = record.num_updates();
    options_.on_update(*this, record);
    return absl::OkStatus();
  }

  absl::Status StartFrom(Step step, uint64_t num_updates) override {
    if (const absl::Status may = CheckMayStartFrom(*this, step, num_updates); !may.ok()) return may;
    applied_step_ = step;
    num_updates_ = num_updates;
    return absl::OkStatus();
  }
  const StageStateBytes& bytes() const override { return bytes_; }
  Step applied_step() const override { return applied_step_; }
  uint64_t num_updates() const override { return num_updates_; }
  std::span<const StateTensor> tensors() const override { return {}; }
  absl::StatusOr<TensorDigest> Digest(Stream& /*stream*/, const Tensor& /*tensor*/) override { return TensorDigest{}; }

  LayerIndex first_layer() const { return options_.first_layer; }

  std::vector<uint64_t> values;     // by layer of the stage
  std::vector<uint64_t> gradients;  // likewise

 private:
  const Options options_;
  const StageStateBytes bytes_{.parameters = 16, .gradients = 16, .optimizer = 0};
  Step applied_step_;
  uint64_t num_updates_ = 0;
};

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_SIMULATED_STAGE_STATE_H_
