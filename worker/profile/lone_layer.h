#ifndef STAGECOACH_WORKER_PROFILE_LONE_LAYER_H_
#define STAGECOACH_WORKER_PROFILE_LONE_LAYER_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/layer_memory.h"
#include "stagecoach/v1/plan.pb.h"
#include "stagecoach/v1/worker.pb.h"
#include "worker/device/device.h"
#include "worker/model/layer.h"
#include "worker/model/stage_state.h"

namespace stagecoach {

// One layer on a device with all that its calls need: random parameters, accumulators, an input, labels, the gradient
// of its output, and the memory of one full micro-batch. Device's thread only.
class LoneLayer {
 public:
  // INVALID_ARGUMENT, UNIMPLEMENTED: as BuildLayer, or sizes that are none. RESOURCE_EXHAUSTED: it needs more than
  // `memory_bytes` (0: no limit), or than the device has.
  static absl::StatusOr<std::unique_ptr<LoneLayer>> Create(Device& device, const v1::LayerCall& call,
                                                           uint64_t memory_bytes);

  // Each returns when its work is complete. In this order: what one writes the next reads.
  absl::Status Forward();
  absl::Status BackwardInput();
  absl::Status BackwardWeight();
  uint64_t bytes() const { return needed_bytes_; }       // of all that its calls touch, at most
  double loss() const { return *output_.as<double>(); }  // of the head's last Forward

 private:
  LoneLayer(Device& device, const v1::LayerCall& call) : device_(device), call_(call) {}
  // In this order, by Create.
  absl::Status CheckSizes(uint64_t memory_bytes);
  absl::Status Build();
  absl::Status Allocate();
  absl::Status FillInputs();

  absl::Status AllocateTensor(uint64_t bytes, std::unique_ptr<Memory>& memory);
  absl::Status FillTokens(const Tensor& tensor);
  absl::Status WaitComplete();
  Tensor Activation(const Memory& memory) const;
  bool is_first() const { return call_.layer().kind() == v1::LAYER_KIND_TOKEN_EMBEDDING; }
  bool is_head() const { return call_.layer().kind() == v1::LAYER_KIND_LANGUAGE_MODEL_HEAD; }

  Device& device_;
  const v1::LayerCall call_;
  int64_t hidden_ = 0;
  LayerMemoryBytes bytes_;
  uint64_t needed_bytes_ = 0;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<StageState> state_;  // of a stage of this layer alone
  std::unique_ptr<Layer> layer_;
  MicroBatch micro_batch_;
  std::unique_ptr<Memory> saved_, shared_, pending_, scratch_;
  std::unique_ptr<Memory> input_memory_, output_memory_, labels_memory_, input_gradient_memory_,
      output_gradient_memory_;
  LayerMemory memory_;
  Tensor input_, labels_, output_, input_gradient_, output_gradient_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_PROFILE_LONE_LAYER_H_
