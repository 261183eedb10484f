// Operations of the CPU device that move more bytes than they compute, at the sizes of a GPT-2 of 124M parameters with
// a micro-batch of 4 x 512 tokens. Compare bytes_per_second with Copy's in the same run: that is what memory gives.
// Rates are per second of the calling thread's processor time, which others on the machine disturb less.
//
//   elementwise_benchmark [--benchmark_filter=...] [--benchmark_repetitions=5]

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "worker/device/cpu/cpu_device.h"
#include "worker/device/tensor_operations.h"

namespace stagecoach {
namespace {

constexpr int64_t kRows = 2048;
constexpr int64_t kHidden = 768;
constexpr int64_t kWide = 4 * kHidden;
constexpr int64_t kVocab = 50257;

// A device on `state.range(0)` threads and its tensors.
class Bench {
 public:
  explicit Bench(const benchmark::State& state)
      : device_(Require(CpuDevice::Create({.threads = static_cast<int>(state.range(0))}))),
        stream_(Require(device_->CreateStream())) {}

  TensorOperations& on() { return device_->operations(); }
  Stream& stream() { return *stream_; }

  Tensor New(v1::DType dtype, std::initializer_list<int64_t> dims) {
    Tensor tensor = Tensor::Of(nullptr, dtype, dims);
    memory_.push_back(Require(device_->Allocate(tensor.bytes(), MemoryKind::kDevice)));
    tensor.data = memory_.back()->data();
    return tensor;
  }
  Tensor Noise(std::initializer_list<int64_t> dims) {
    const Tensor tensor = New(v1::DTYPE_F32, dims);
    Check(on().elementwise().EnqueueNormal(stream(), tensor, 1, memory_.size()));
    return tensor;
  }

  // Times `call`, which moves `bytes` for `elements` results.
  void Run(benchmark::State& state, int64_t elements, int64_t bytes, const std::function<absl::Status()>& call) {
    Check(call());
    for (auto iteration : state) {
      static_cast<void>(iteration);
      Check(call());
    }
    state.SetItemsProcessed(state.iterations() * elements);
    state.SetBytesProcessed(state.iterations() * bytes);
  }

 private:
  static void Check(const absl::Status& status) {
    if (status.ok()) return;
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    std::exit(1);
  }
  template <typename T>
  static T Require(absl::StatusOr<T> value) {
    Check(value.status());
    return *std::move(value);
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::vector<std::unique_ptr<Memory>> memory_;
};

void Copy(benchmark::State& state) {
  std::vector<float> from(kRows * kWide, 1.0f);
  std::vector<float> to(from.size());
  const size_t bytes = from.size() * sizeof(float);
  for (auto iteration : state) {
    static_cast<void>(iteration);
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(2 * bytes));
}

void Gelu(benchmark::State& state) {
  Bench bench(state);
  const Tensor x = bench.Noise({kRows, kWide});
  const Tensor y = bench.Noise({kRows, kWide});
  bench.Run(state, x.num_elements(), 8 * x.num_elements(),
            [&] { return bench.on().elementwise().EnqueueGelu(bench.stream(), x, y); });
}

void GeluGradient(benchmark::State& state) {
  Bench bench(state);
  const Tensor x = bench.Noise({kRows, kWide});
  const Tensor dy = bench.Noise({kRows, kWide});
  const Tensor dx = bench.Noise({kRows, kWide});
  bench.Run(state, x.num_elements(), 12 * x.num_elements(),
            [&] { return bench.on().elementwise().EnqueueGeluGradient(bench.stream(), x, dy, dx); });
}

void DropoutAdd(benchmark::State& state) {
  Bench bench(state);
  const Tensor x = bench.Noise({4, kRows, kHidden});
  const Tensor residual = bench.Noise({4, kRows, kHidden});
  const Tensor y = bench.Noise({4, kRows, kHidden});
  bench.Run(state, x.num_elements(), 12 * x.num_elements(), [&] {
    return bench.on().elementwise().EnqueueDropoutAdd(bench.stream(), x, {0.1, 1, 2}, residual, y);
  });
}

struct NormTensors {
  explicit NormTensors(Bench& bench)
      : x(bench.Noise({kRows, kHidden})),
        y(bench.Noise({kRows, kHidden})),
        dx(bench.Noise({kRows, kHidden})),
        mean_rstd(bench.Noise({kRows, 2})),
        gamma(bench.Noise({kHidden})),
        beta(bench.Noise({kHidden})) {}
  Tensor x, y, dx, mean_rstd, gamma, beta;
};

void LayerNorm(benchmark::State& state) {
  Bench bench(state);
  const NormTensors t(bench);
  bench.Run(state, t.x.num_elements(), 8 * t.x.num_elements(), [&] {
    return bench.on().norm().EnqueueForward(bench.stream(), t.x, t.gamma, t.beta, 1e-5, t.y, t.mean_rstd);
  });
}

void LayerNormBackwardInput(benchmark::State& state) {
  Bench bench(state);
  const NormTensors t(bench);
  bench.Run(state, t.x.num_elements(), 16 * t.x.num_elements(), [&] {
    return bench.on().norm().EnqueueBackwardInput(bench.stream(), t.x, t.mean_rstd, t.gamma, t.y, true, t.dx);
  });
}

void LayerNormBackwardWeight(benchmark::State& state) {
  Bench bench(state);
  const NormTensors t(bench);
  bench.Run(state, t.x.num_elements(), 8 * t.x.num_elements(), [&] {
    return bench.on().norm().EnqueueBackwardWeight(bench.stream(), t.x, t.mean_rstd, t.y, t.gamma, t.beta);
  });
}

void CrossEntropy(benchmark::State& state) {
  Bench bench(state);
  const Tensor logits = bench.Noise({256, kVocab});
  const Tensor labels = bench.New(v1::DTYPE_I32, {256});
  const Tensor log_sum_exp = bench.Noise({256});
  const Tensor loss = bench.New(v1::DTYPE_F64, {256});
  bench.Run(state, logits.num_elements(), 4 * logits.num_elements(), [&] {
    return bench.on().vocabulary().EnqueueCrossEntropy(bench.stream(), logits, labels, log_sum_exp, loss);
  });
}

void CrossEntropyGradient(benchmark::State& state) {
  Bench bench(state);
  const Tensor logits = bench.Noise({256, kVocab});
  const Tensor labels = bench.New(v1::DTYPE_I32, {256});
  const Tensor log_sum_exp = bench.Noise({256});
  bench.Run(state, logits.num_elements(), 8 * logits.num_elements(), [&] {
    return bench.on().vocabulary().EnqueueCrossEntropyGradient(bench.stream(), logits, 0, labels, log_sum_exp, 1);
  });
}

void EmbeddingGradient(benchmark::State& state) {
  Bench bench(state);
  const Tensor tokens = bench.New(v1::DTYPE_I32, {4, kRows / 4});
  for (int64_t i = 0; i < kRows; ++i) tokens.as<int32_t>()[i] = static_cast<int32_t>(i * 7919 % kVocab);
  const Tensor dy = bench.Noise({4, kRows / 4, kHidden});
  const Tensor d_table = bench.New(v1::DTYPE_F32, {kVocab, kHidden});
  const Tensor d_positions = bench.Noise({kRows / 4, kHidden});
  bench.Run(state, dy.num_elements(), 20 * dy.num_elements(), [&] {
    return bench.on().vocabulary().EnqueueEmbeddingGradient(bench.stream(), tokens, dy, d_table, d_positions);
  });
}

void AdamWUpdate(benchmark::State& state) {
  Bench bench(state);
  const Tensor parameter = bench.Noise({9, kHidden, kHidden});
  const Tensor gradient = bench.Noise({9, kHidden, kHidden});
  const Tensor exp_avg = bench.New(v1::DTYPE_F32, {9, kHidden, kHidden});
  const Tensor exp_avg_sq = bench.New(v1::DTYPE_F32, {9, kHidden, kHidden});
  const AdamW update = {1e-4, 0.9, 0.999, 1e-8, 0.01, 0.5, 0.1, 1};
  bench.Run(state, parameter.num_elements(), 28 * parameter.num_elements(), [&] {
    return bench.on().update().EnqueueAdamW(bench.stream(), parameter, gradient, exp_avg, exp_avg_sq, update);
  });
}

void SquaredNorm(benchmark::State& state) {
  Bench bench(state);
  const Tensor t = bench.Noise({kRows, kWide});
  const Tensor norm = bench.New(v1::DTYPE_F64, {1});
  const Tensor count = bench.New(v1::DTYPE_I64, {1});
  bench.Run(state, t.num_elements(), 4 * t.num_elements(),
            [&] { return bench.on().update().EnqueueSquaredNorm(bench.stream(), t, norm, count); });
}

void Digest(benchmark::State& state) {
  Bench bench(state);
  const Tensor t = bench.Noise({kRows, kWide});
  const Tensor digest = bench.New(v1::DTYPE_U64, {2});
  bench.Run(state, t.num_elements(), 4 * t.num_elements(),
            [&] { return bench.on().update().EnqueueDigest(bench.stream(), t, digest); });
}

void NormalNoise(benchmark::State& state) {
  Bench bench(state);
  const Tensor t = bench.Noise({kHidden, kHidden});
  bench.Run(state, t.num_elements(), 4 * t.num_elements(),
            [&] { return bench.on().elementwise().EnqueueNormal(bench.stream(), t, 0.02, 1); });
}

BENCHMARK(Copy);
#define STAGECOACH_BENCHMARK(name) BENCHMARK(name)->ArgName("threads")->Arg(1)->Arg(2)
STAGECOACH_BENCHMARK(Gelu);
STAGECOACH_BENCHMARK(GeluGradient);
STAGECOACH_BENCHMARK(DropoutAdd);
STAGECOACH_BENCHMARK(LayerNorm);
STAGECOACH_BENCHMARK(LayerNormBackwardInput);
STAGECOACH_BENCHMARK(LayerNormBackwardWeight);
STAGECOACH_BENCHMARK(CrossEntropy);
STAGECOACH_BENCHMARK(CrossEntropyGradient);
STAGECOACH_BENCHMARK(EmbeddingGradient);
STAGECOACH_BENCHMARK(AdamWUpdate);
STAGECOACH_BENCHMARK(SquaredNorm);
STAGECOACH_BENCHMARK(Digest);
STAGECOACH_BENCHMARK(NormalNoise);

}  // namespace
}  // namespace stagecoach

BENCHMARK_MAIN();
