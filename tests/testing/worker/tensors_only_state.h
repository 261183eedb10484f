#ifndef STAGECOACH_TESTS_TESTING_WORKER_TENSORS_ONLY_STATE_H_
#define STAGECOACH_TESTS_TESTING_WORKER_TENSORS_ONLY_STATE_H_

#include <cstdlib>
#include <deque>
#include <string>
#include <vector>

#include "worker/device/host_device.h"
#include "worker/model/stage_state.h"

namespace stagecoach {

// Host memory, which may be said to be out of the host's reach; no operations.
class HostMemoryDevice final : public HostDevice {
 public:
  explicit HostMemoryDevice(bool host_addressable = true)
      : HostDevice(Described()), capabilities_(HostDevice::capabilities()) {
    capabilities_.host_addressable = host_addressable;
  }
  const DeviceCapabilities& capabilities() const override { return capabilities_; }
  TensorOperations& operations() override { std::abort(); }

 private:
  static DeviceCapabilities Described() {
    DeviceCapabilities capabilities;
    capabilities.kind = "fake";
    capabilities.memory_bytes = 1 << 20;
    return capabilities;
  }

  DeviceCapabilities capabilities_;
};

// Tensors, a step and nothing else.
class TensorsOnlyState final : public StageState {
 public:
  template <typename T>
  void Add(const std::string& name, v1::DType dtype, std::vector<int64_t> dims, const std::vector<T>& values) {
    std::string& bytes = memory_.emplace_back(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    StateTensor& tensor = tensors_.emplace_back();
    tensor.name = name;
    tensor.tensor = Tensor::Of(bytes.data(), dtype, {});
    for (const int64_t dim : dims) tensor.tensor.dims[static_cast<size_t>(tensor.tensor.rank++)] = dim;
  }
  StateTensor& last() { return tensors_.back(); }
  TensorDigest error_of_digest;
  Step step = Step(20);

  Step applied_step() const override { return step; }
  uint64_t num_updates() const override { return 19; }
  std::span<const StateTensor> tensors() const override { return tensors_; }
  absl::StatusOr<TensorDigest> Digest(Stream& /*stream*/, const Tensor& tensor) override {
    return DigestBytes({tensor.as<const std::byte>(), tensor.bytes()}) + error_of_digest;
  }

  const StageStateBytes& bytes() const override { return bytes_; }
  std::span<const Parameter> parameters(LayerIndex /*layer*/) const override { return {}; }
  absl::Status EnqueueZeroGradients(Stream& /*stream*/) override { return absl::OkStatus(); }
  Tensor tied_gradient() const override { return {}; }
  absl::Status EnqueueReduceTie(Stream& /*stream*/, const Tensor& /*other*/) override { return absl::OkStatus(); }
  absl::StatusOr<GradientReport> ReportGradients(Stream& /*stream*/) override { return GradientReport{}; }
  absl::Status Update(Stream& /*stream*/, const v1::CommitRecord& /*record*/) override { return absl::OkStatus(); }
  absl::Status StartFrom(Step at, uint64_t /*num_updates*/) override {
    step = at;
    return absl::OkStatus();
  }

 private:
  const StageStateBytes bytes_ = {};
  std::deque<std::string> memory_;
  std::vector<StateTensor> tensors_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_TESTING_WORKER_TENSORS_ONLY_STATE_H_
