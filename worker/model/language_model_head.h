#ifndef STAGECOACH_WORKER_MODEL_LANGUAGE_MODEL_HEAD_H_
#define STAGECOACH_WORKER_MODEL_LANGUAGE_MODEL_HEAD_H_

#include <cstdint>
#include <memory>

#include "worker/model/layer.h"
#include "worker/model/layer_factory.h"

namespace stagecoach {

// The output embedding and the loss: the mean cross entropy over the tokens whose label is not negative. Works in tiles
// (see HeadForwardRows), so that the full logits never exist: Forward goes over rows, computes their loss and, in
// training, already their input gradient, which BackwardInput copies out; BackwardWeight goes over the vocabulary and
// computes the logits again. Without a saved region Forward makes no input gradient.
//
// Host work: counts labels, and adds the rows' losses in row order, both after a wait for the device; so the device's
// memory must be host_addressable. Executor's thread only.
class LanguageModelHead : public Layer {
 public:
  // UNIMPLEMENTED: the host cannot address the device's memory.
  static absl::StatusOr<std::unique_ptr<Layer>> Create(const v1::LayerSpec& spec, const LayerContext& context);

  absl::Status Forward(const MicroBatch& micro_batch, const Tensor& input, const Tensor& labels, const Tensor& output,
                       const LayerMemory& memory) override;
  absl::Status BackwardInput(const MicroBatch& micro_batch, const Tensor& input, const Tensor& output_gradient,
                             const Tensor& input_gradient, const LayerMemory& memory) override;
  absl::Status BackwardWeight(const MicroBatch& micro_batch, const Tensor& input, const Tensor& labels,
                              const Tensor& output_gradient, const LayerMemory& memory) override;

 private:
  LanguageModelHead(const LayerContext& context, int64_t vocab)
      : device_(context.device), weight_(context.parameters[0]), vocab_(vocab) {}

  // Rows [first, first + count) of one micro-batch, as vectors and matrices.
  struct Rows {
    Tensor input, labels, log_sum_exp;
    Tensor loss = {}, input_gradient = {};
    Rows Slice(int64_t first, int64_t count) const;
  };

  absl::Status ForwardRows(const MicroBatch& micro_batch, const Rows& rows, const Tensor& logits,
                           double gradient_scale) const;
  absl::Status WaitComplete(Stream& stream) const;
  // Of a micro-batch's labels: how many are not negative. Waits for the device.
  absl::StatusOr<int64_t> CountTokens(Stream& stream, const Tensor& labels) const;

  Device& device_;
  const Parameter weight_;  // [vocabulary, hidden]
  const int64_t vocab_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_MODEL_LANGUAGE_MODEL_HEAD_H_
