#ifndef STAGECOACH_TESTS_TESTING_WORKER_FAKE_STAGE_H_
#define STAGECOACH_TESTS_TESTING_WORKER_FAKE_STAGE_H_

#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/model/stage.h"
#include "worker/model/stage_state.h"

namespace stagecoach {

// A stage with arithmetic that tests can follow: F adds 1 to every element (the first stage starts from the tokens),
// the last stage's loss is loss_weight x (sum of its input + sum of the labels), I doubles (the last stage starts from
// loss_weight), W adds loss_weight to every element of the state's gradient. What skip edges bring is added to what F
// or I writes; over skip connection c goes that plus c. The regions carry the micro-batch's number from call to call,
// which is checked. With bytes for them, it recomputes: I and W then look for what R left.
class FakeStage final : public Stage {
 public:
  struct Options {
    StageSlotBytes bytes{.saved = 64, .shared = 64, .pending = 64, .scratch = 64};
    bool record = true;  // false: no allocation
    // Called at the start of each call, with "F", "R", "I" or "W".
    std::function<absl::Status(const char* kind, const MicroBatch& micro_batch)> hook;
  };
  struct Call {
    std::string text;  // "F0"
    MicroBatch micro_batch;
    StageMemoryView memory;
    Tensor input, labels, output;
    std::vector<float> skips_read;  // every element that came over skip edges
  };

  FakeStage(const StageState& state, Options options) : state_(state), options_(std::move(options)) {}

  const StageSlotBytes& slot_bytes() const override { return options_.bytes; }

  absl::Status Forward(const MicroBatch& micro_batch, const Tensor& input, const Tensor& labels, const Tensor& output,
                       const StageMemoryView& memory) override {
    if (const absl::Status status = Begin("F", micro_batch, {input, labels, output}, memory); !status.ok()) {
      return status;
    }
    Mark(memory.saved, micro_batch);
    Mark(memory.shared, micro_batch);
    // What nobody reads, where others may have theirs.
    if (recomputes()) std::memset(memory.pending.data(), 0, options_.bytes.remade);
    if (recomputes()) std::memset(memory.recomputed.data(), 0, options_.bytes.recomputed);
    const int64_t count = input.num_elements();
    if (output.dtype == v1::DTYPE_F64) {
      if (micro_batch.samples == 0) return absl::OkStatus();  // leaves what was there: nobody may read it
      double sum = 0;
      for (int64_t i = 0; i < count; ++i) sum += At(input, i);
      for (int64_t i = 0; i < labels.num_elements() && !labels.empty(); ++i) sum += At(labels, i);
      ForEachSkip(memory.skips_read, [&](uint32_t, float& value, size_t) { sum += value; });
      *output.as<double>() = micro_batch.loss_weight * sum;
      return absl::OkStatus();
    }
    for (int64_t i = 0; i < output.num_elements(); ++i) {
      const int64_t from = input.dtype == v1::DTYPE_I32 ? i / output.columns() : i;
      output.as<float>()[i] = static_cast<float>(At(input, from) + 1);
    }
    MoveSkips(output, memory);
    return absl::OkStatus();
  }

  absl::Status Recompute(const MicroBatch& micro_batch, const StageMemoryView& memory) override {
    if (const absl::Status status = Begin("R", micro_batch, {}, memory); !status.ok()) return status;
    if (!HasMark(memory.shared, micro_batch)) return absl::InternalError("R does not see what F saved");
    Mark(memory.pending, micro_batch);
    Mark(memory.recomputed, micro_batch);
    return absl::OkStatus();
  }

  absl::Status BackwardInput(const MicroBatch& micro_batch, const Tensor& output_gradient, const Tensor& input_gradient,
                             const StageMemoryView& memory) override {
    if (const absl::Status status = Begin("I", micro_batch, {output_gradient, {}, input_gradient}, memory);
        !status.ok()) {
      return status;
    }
    if (!HasMark(memory.saved, micro_batch) || !HasMark(memory.shared, micro_batch)) {
      return absl::InternalError("I does not see what F saved");
    }
    if (recomputes() && (!HasMark(memory.pending, micro_batch) || !HasMark(memory.recomputed, micro_batch))) {
      return absl::InternalError("I does not see what R made");
    }
    Mark(memory.pending, micro_batch);
    for (int64_t i = 0; i < input_gradient.num_elements() && !input_gradient.empty(); ++i) {
      const double from = output_gradient.empty() ? micro_batch.loss_weight : At(output_gradient, i);
      input_gradient.as<float>()[i] = static_cast<float>(2 * from);
    }
    if (!input_gradient.empty()) MoveSkips(input_gradient, memory);
    return absl::OkStatus();
  }

  absl::Status BackwardWeight(const MicroBatch& micro_batch, const Tensor& labels,
                              const StageMemoryView& memory) override {
    if (const absl::Status status = Begin("W", micro_batch, {{}, labels, {}}, memory); !status.ok()) return status;
    if (!HasMark(memory.shared, micro_batch) || !HasMark(memory.pending, micro_batch)) {
      return absl::InternalError("W does not see what F and I left");
    }
    const Tensor& gradient = state_.parameters(LayerIndex(0)).front().gradient;
    for (int64_t i = 0; i < gradient.num_elements(); ++i) {
      gradient.as<float>()[i] += static_cast<float>(micro_batch.loss_weight);
    }
    return absl::OkStatus();
  }

  std::vector<Call> calls;

 private:
  bool recomputes() const { return options_.bytes.remade > 0; }

  struct Tensors {
    Tensor input, labels, output;
  };

  absl::Status Begin(const char* kind, const MicroBatch& micro_batch, const Tensors& tensors,
                     const StageMemoryView& memory) {
    if (const absl::Status status = micro_batch.stream->CheckNotCancelled(); !status.ok()) return status;
    if (options_.record) {
      calls.push_back({absl::StrCat(kind, micro_batch.index.value()),
                       micro_batch,
                       memory,
                       tensors.input,
                       tensors.labels,
                       tensors.output,
                       {}});
      ForEachSkip(memory.skips_read, [&](uint32_t, float& value, size_t) { calls.back().skips_read.push_back(value); });
    }
    return options_.hook ? options_.hook(kind, micro_batch) : absl::OkStatus();
  }
  // Calls visit(connection, value, i) for element i of each connection's tensor.
  template <typename Visit>
  static void ForEachSkip(std::span<const SkipTensors> edges, Visit visit) {
    for (const SkipTensors& edge : edges) {
      const size_t count = edge.data.size() / sizeof(float) / edge.connections.size();
      auto* values = reinterpret_cast<float*>(edge.data.data());
      for (const uint32_t connection : edge.connections) {
        for (size_t i = 0; i < count; ++i) visit(connection, *values++, i);
      }
    }
  }
  static void MoveSkips(const Tensor& result, const StageMemoryView& memory) {
    ForEachSkip(memory.skips_read, [&](uint32_t, float& value, size_t i) { result.as<float>()[i] += value; });
    ForEachSkip(memory.skips_written, [&](uint32_t connection, float& value, size_t i) {
      value = result.as<float>()[i] + static_cast<float>(connection);
    });
  }
  static double At(const Tensor& tensor, int64_t i) {
    return tensor.dtype == v1::DTYPE_I32 ? tensor.as<int32_t>()[i] : static_cast<double>(tensor.as<float>()[i]);
  }
  static void Mark(std::span<std::byte> region, const MicroBatch& micro_batch) {
    if (region.empty()) return;
    const uint32_t mark = micro_batch.index.value() + 1;
    std::memcpy(region.data(), &mark, sizeof(mark));
  }
  static bool HasMark(std::span<std::byte> region, const MicroBatch& micro_batch) {
    uint32_t mark = 0;
    if (!region.empty()) std::memcpy(&mark, region.data(), sizeof(mark));
    return mark == micro_batch.index.value() + 1;
  }

  const StageState& state_;  // a FakeStageState
  const Options options_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_TESTING_WORKER_FAKE_STAGE_H_
