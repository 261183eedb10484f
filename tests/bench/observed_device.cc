#include "tests/bench/observed_device.h"

#include <utility>

#include "common/status_macros.h"
#include "worker/device/cpu/cpu_device.h"

namespace stagecoach {
namespace {

// Forwards everything to the device that it owns. Threading as in Device.
class ObservedDevice : public Device,
                       private TensorOperations,
                       private MatmulOperations,
                       private AttentionOperations,
                       private NormOperations,
                       private ElementwiseOperations,
                       private VocabularyOperations,
                       private UpdateOperations {
 public:
  ObservedDevice(std::unique_ptr<Device> device, std::unique_ptr<OperationObserver> observer)
      : device_(std::move(device)), observer_(std::move(observer)) {}

  const DeviceCapabilities& capabilities() const override { return device_->capabilities(); }
  absl::StatusOr<std::unique_ptr<Memory>> Allocate(size_t bytes, MemoryKind kind) override {
    return device_->Allocate(bytes, kind);
  }
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream() override { return device_->CreateStream(); }
  absl::StatusOr<EventRef> Record(Stream& stream) override { return device_->Record(stream); }
  absl::Status EnqueueWait(Stream& stream, const EventRef& event) override {
    return device_->EnqueueWait(stream, event);
  }
  absl::Status EnqueueCopy(Stream& stream, void* to, const void* from, size_t bytes) override {
    return Observe(OperationFamily::kCopy, [&] { return device_->EnqueueCopy(stream, to, from, bytes); });
  }
  absl::Status WaitComplete(const EventRef& event, absl::Duration timeout) override {
    return device_->WaitComplete(event, timeout);
  }
  TensorOperations& operations() override { return *this; }

 private:
  MatmulOperations& matmul() override { return *this; }
  AttentionOperations& attention() override { return *this; }
  NormOperations& norm() override { return *this; }
  ElementwiseOperations& elementwise() override { return *this; }
  VocabularyOperations& vocabulary() override { return *this; }
  UpdateOperations& update() override { return *this; }

  absl::Status EnqueueMatmul(Stream& stream, const Matmul& matmul) override {
    return Observe(
        OperationFamily::kMatmul, [&] { return device_->operations().matmul().EnqueueMatmul(stream, matmul); },
        &matmul);
  }
  absl::Status EnqueueColumnSum(Stream& stream, const Tensor& rows, const Tensor& sum) override {
    return Observe(OperationFamily::kColumnSum,
                   [&] { return device_->operations().matmul().EnqueueColumnSum(stream, rows, sum); });
  }

  absl::Status EnqueueForward(Stream& stream, const Attention& attention) override {
    return Observe(OperationFamily::kAttention,
                   [&] { return device_->operations().attention().EnqueueForward(stream, attention); });
  }
  absl::Status EnqueueBackward(Stream& stream, const AttentionGradient& gradient) override {
    return Observe(OperationFamily::kAttention,
                   [&] { return device_->operations().attention().EnqueueBackward(stream, gradient); });
  }

  absl::Status EnqueueForward(Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon,
                              const Tensor& y, const Tensor& mean_rstd) override {
    return Observe(OperationFamily::kNorm, [&] {
      return device_->operations().norm().EnqueueForward(stream, x, gamma, beta, epsilon, y, mean_rstd);
    });
  }
  absl::Status EnqueueBackwardInput(Stream& stream, const Tensor& x, const Tensor& mean_rstd, const Tensor& gamma,
                                    const Tensor& dy, bool accumulate, const Tensor& dx) override {
    return Observe(OperationFamily::kNorm, [&] {
      return device_->operations().norm().EnqueueBackwardInput(stream, x, mean_rstd, gamma, dy, accumulate, dx);
    });
  }
  absl::Status EnqueueBackwardWeight(Stream& stream, const Tensor& x, const Tensor& mean_rstd, const Tensor& dy,
                                     const Tensor& d_gamma, const Tensor& d_beta) override {
    return Observe(OperationFamily::kNorm, [&] {
      return device_->operations().norm().EnqueueBackwardWeight(stream, x, mean_rstd, dy, d_gamma, d_beta);
    });
  }

  absl::Status EnqueueGelu(Stream& stream, const Tensor& x, const Tensor& y) override {
    return Observe(OperationFamily::kElementwise,
                   [&] { return device_->operations().elementwise().EnqueueGelu(stream, x, y); });
  }
  absl::Status EnqueueGeluGradient(Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dx) override {
    return Observe(OperationFamily::kElementwise,
                   [&] { return device_->operations().elementwise().EnqueueGeluGradient(stream, x, dy, dx); });
  }
  absl::Status EnqueueAdd(Stream& stream, const Tensor& a, const Tensor& b, const Tensor& sum) override {
    return Observe(OperationFamily::kElementwise,
                   [&] { return device_->operations().elementwise().EnqueueAdd(stream, a, b, sum); });
  }
  absl::Status EnqueueDropoutAdd(Stream& stream, const Tensor& x, const Dropout& dropout, const Tensor& residual,
                                 const Tensor& y) override {
    return Observe(OperationFamily::kElementwise, [&] {
      return device_->operations().elementwise().EnqueueDropoutAdd(stream, x, dropout, residual, y);
    });
  }
  absl::Status EnqueueFill(Stream& stream, const Tensor& t, double value) override {
    return Observe(OperationFamily::kElementwise,
                   [&] { return device_->operations().elementwise().EnqueueFill(stream, t, value); });
  }
  absl::Status EnqueueNormal(Stream& stream, const Tensor& t, double standard_deviation, uint64_t seed) override {
    return Observe(OperationFamily::kElementwise, [&] {
      return device_->operations().elementwise().EnqueueNormal(stream, t, standard_deviation, seed);
    });
  }

  absl::Status EnqueueEmbedding(Stream& stream, const Tensor& tokens, const Tensor& table, const Tensor& positions,
                                const Tensor& y) override {
    return Observe(OperationFamily::kEmbedding, [&] {
      return device_->operations().vocabulary().EnqueueEmbedding(stream, tokens, table, positions, y);
    });
  }
  absl::Status EnqueueEmbeddingGradient(Stream& stream, const Tensor& tokens, const Tensor& dy, const Tensor& d_table,
                                        const Tensor& d_positions) override {
    return Observe(OperationFamily::kEmbedding, [&] {
      return device_->operations().vocabulary().EnqueueEmbeddingGradient(stream, tokens, dy, d_table, d_positions);
    });
  }
  absl::Status EnqueueCrossEntropy(Stream& stream, const Tensor& logits, const Tensor& labels,
                                   const Tensor& log_sum_exp, const Tensor& loss) override {
    return Observe(OperationFamily::kLoss, [&] {
      return device_->operations().vocabulary().EnqueueCrossEntropy(stream, logits, labels, log_sum_exp, loss);
    });
  }
  absl::Status EnqueueCrossEntropyGradient(Stream& stream, const Tensor& logits, int64_t first_column,
                                           const Tensor& labels, const Tensor& log_sum_exp, double scale) override {
    return Observe(OperationFamily::kLoss, [&] {
      return device_->operations().vocabulary().EnqueueCrossEntropyGradient(stream, logits, first_column, labels,
                                                                            log_sum_exp, scale);
    });
  }

  absl::Status EnqueueAdamW(Stream& stream, const Tensor& parameter, const Tensor& gradient, const Tensor& exp_avg,
                            const Tensor& exp_avg_sq, const AdamW& update) override {
    return Observe(OperationFamily::kUpdate, [&] {
      return device_->operations().update().EnqueueAdamW(stream, parameter, gradient, exp_avg, exp_avg_sq, update);
    });
  }
  absl::Status EnqueueSgd(Stream& stream, const Tensor& parameter, const Tensor& gradient, const Tensor& momentum,
                          const Sgd& update) override {
    return Observe(OperationFamily::kUpdate, [&] {
      return device_->operations().update().EnqueueSgd(stream, parameter, gradient, momentum, update);
    });
  }
  absl::Status EnqueueSquaredNorm(Stream& stream, const Tensor& t, const Tensor& squared_norm,
                                  const Tensor& num_non_finite) override {
    return Observe(OperationFamily::kGradientReport, [&] {
      return device_->operations().update().EnqueueSquaredNorm(stream, t, squared_norm, num_non_finite);
    });
  }
  absl::Status EnqueueDigest(Stream& stream, const Tensor& t, const Tensor& digest) override {
    return Observe(OperationFamily::kGradientReport,
                   [&] { return device_->operations().update().EnqueueDigest(stream, t, digest); });
  }

  template <typename Operation>
  absl::Status Observe(OperationFamily family, const Operation& operation, const Matmul* matmul = nullptr) {
    observer_->OnStart(family, matmul);
    const absl::Status status = operation();
    observer_->OnEnd(family);
    return status;
  }

  const std::unique_ptr<Device> device_;
  const std::unique_ptr<OperationObserver> observer_;  // after the device, which it may use
};

}  // namespace

DeviceFactory ObservedCpuDevices(ObserverFactory make_observer) {
  return [make_observer =
              std::move(make_observer)](const DeviceOptions& options) -> absl::StatusOr<std::unique_ptr<Device>> {
    STAGECOACH_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, CpuDevice::Create(options));
    std::unique_ptr<OperationObserver> observer = make_observer(*device);
    return std::make_unique<ObservedDevice>(std::move(device), std::move(observer));
  };
}

}  // namespace stagecoach
