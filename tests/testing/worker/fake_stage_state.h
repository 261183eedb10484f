#ifndef STAGECOACH_TESTS_TESTING_WORKER_FAKE_STAGE_STATE_H_
#define STAGECOACH_TESTS_TESTING_WORKER_FAKE_STAGE_STATE_H_

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/model/stage_state.h"

namespace stagecoach {

// One parameter of four elements, updated by plain gradient descent. Any device whose memory is the host's.
class FakeStageState final : public StageState {
 public:
  struct Options {
    std::string name = "w";
    bool tied = false;
    std::function<absl::Status()> on_update;  // at the start of an update that does something
    std::function<void()> on_digest;
  };

  explicit FakeStageState(Options options) : options_(std::move(options)) {
    spec_.set_name(options_.name);
    parameter_ = {.spec = &spec_, .value = View(values), .gradient = View(gradient)};
    tensors_ = {{.name = options_.name, .tensor = View(values), .optimizer_state = false, .owned = true}};
    norms_ = {{.name = options_.name, .squared_norm = 0}};
  }

  std::span<const Parameter> parameters(LayerIndex /*layer*/) const override { return {&parameter_, 1}; }
  absl::Status EnqueueZeroGradients(Stream& stream) override {
    if (const absl::Status status = stream.CheckNotCancelled(); !status.ok()) return status;
    gradient.fill(0);
    ++num_zeroed;
    return absl::OkStatus();
  }
  Tensor tied_gradient() const override { return options_.tied ? parameter_.gradient : Tensor(); }
  absl::Status EnqueueReduceTie(Stream& stream, const Tensor& other) override {
    if (const absl::Status status = stream.CheckNotCancelled(); !status.ok()) return status;
    for (size_t i = 0; i < gradient.size(); ++i) gradient[i] += other.empty() ? 100 : other.as<float>()[i];
    return absl::OkStatus();
  }
  absl::StatusOr<GradientReport> ReportGradients(Stream& stream) override {
    if (const absl::Status status = stream.CheckNotCancelled(); !status.ok()) return status;
    norms_[0].squared_norm = 0;
    for (const float g : gradient) norms_[0].squared_norm += static_cast<double>(g) * g;
    return GradientReport{.norms = norms_, .num_non_finite = std::isfinite(norms_[0].squared_norm) ? 0u : 1u};
  }
  absl::Status Update(Stream& stream, const v1::CommitRecord& record) override {
    if (const absl::Status status = stream.CheckNotCancelled(); !status.ok()) return status;
    if (record.step() == applied_step_.value()) return absl::OkStatus();
    if (record.step() != applied_step_.value() + 1) return absl::FailedPreconditionError("not the next step");
    if (options_.on_update) {
      if (const absl::Status status = options_.on_update(); !status.ok()) return status;
    }
    applied_step_ = Step(record.step());
    num_updates_ = record.num_updates();
    if (record.verdict() != v1::VERDICT_APPLY) return absl::OkStatus();
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] -= static_cast<float>(record.learning_rate() * record.clip_factor()) * gradient[i];
    }
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
  std::span<const StateTensor> tensors() const override { return tensors_; }
  absl::StatusOr<TensorDigest> Digest(Stream& /*stream*/, const Tensor& tensor) override {
    if (options_.on_digest) options_.on_digest();
    TensorDigest digest;
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      uint32_t word = 0;
      std::memcpy(&word, tensor.as<float>() + i, sizeof(word));
      for (size_t which = 0; which < 2; ++which) {
        digest.words[which] += DigestWord(static_cast<uint64_t>(i), word, which);
      }
    }
    return digest;
  }

  void AddToGradient(double value) {
    for (float& g : gradient) g += static_cast<float>(value);
  }

  std::array<float, 4> values{};
  std::array<float, 4> gradient{};
  int num_zeroed = 0;

 private:
  static Tensor View(std::array<float, 4>& data) { return Tensor::Of(data.data(), v1::DTYPE_F32, {4}); }

  const Options options_;
  const StageStateBytes bytes_{.parameters = 16, .gradients = 16, .optimizer = 0};
  v1::ParameterSpec spec_;
  Parameter parameter_;
  std::vector<StateTensor> tensors_;
  std::vector<NormReport> norms_;
  Step applied_step_;
  uint64_t num_updates_ = 0;
};

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_TESTING_WORKER_FAKE_STAGE_STATE_H_
