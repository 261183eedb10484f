// Rates of the CPU device's matrix products and attention, against what oneDNN reaches with a right operand packed
// beforehand, all measured in one run, in turns, the best of several: absolute times on a shared machine mean little.
//
//   matmul_attention_benchmark [threads]

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <limits>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>
#include <vector>

#include "worker/device/cpu/cpu_attention_operations.h"
#include "worker/device/cpu/cpu_matmul_operations.h"
#include "worker/device/cpu/cpu_workspace.h"
#include "worker/device/tensor_operations.h"

namespace stagecoach {
namespace {

constexpr int kRounds = 7;
constexpr double kSecondsPerTurn = 0.03;

[[noreturn]] void Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}
void Require(const absl::Status& status) {
  if (!status.ok()) Fail(status);
}

// A tensor in memory as the device allocates it, filled with numbers in [-0.5, 0.5).
class Operand {
 public:
  explicit Operand(std::initializer_list<int64_t> dims) {
    tensor_ = Tensor::Of(nullptr, v1::DTYPE_F32, dims);
    absl::StatusOr<std::unique_ptr<Memory>> memory =
        AllocateHostMemory(static_cast<size_t>(tensor_.num_elements()) * sizeof(float));
    if (!memory.ok()) Fail(memory.status());
    memory_ = *std::move(memory);
    tensor_.data = memory_->data();
    uint32_t state = 1;
    for (int64_t i = 0; i < tensor_.num_elements(); ++i) {
      state = state * 1664525u + 1013904223u;
      tensor_.as<float>()[i] = static_cast<float>(state >> 8) * 0x1p-24f - 0.5f;
    }
  }
  const Tensor& tensor() const { return tensor_; }

 private:
  std::unique_ptr<Memory> memory_;
  Tensor tensor_;
};

// Work timed in turns with others.
struct Contender {
  double operations;  // floating-point operations of one call
  std::function<void()> call;
  double seconds = std::numeric_limits<double>::infinity();

  double GigaflopsPerSecond() const { return operations / seconds / 1e9; }
};

// Of one thread its processor time, which others on a busy machine disturb least; of several the time that passed.
double Now() {
  timespec time{};
  clock_gettime(omp_get_max_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double SecondsOf(const std::function<void()>& call, int count) {
  const double start = Now();
  for (int i = 0; i < count; ++i) call();
  return (Now() - start) / count;
}

void Measure(std::vector<Contender>& contenders) {
  std::vector<int> counts;
  for (Contender& contender : contenders) {
    contender.call();  // makes primitives, touches memory
    const double seconds = SecondsOf(contender.call, 1);
    counts.push_back(std::max(1, static_cast<int>(kSecondsPerTurn / seconds)));
  }
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < contenders.size(); ++i) {
      contenders[i].seconds = std::min(contenders[i].seconds, SecondsOf(contenders[i].call, counts[i]));
    }
  }
}

struct ProductShape {
  const char* name;
  int64_t m, n, k;
  bool transpose_a, transpose_b, accumulate;
};
constexpr bool kPlain = false, kTransposed = true;
constexpr ProductShape kProducts[] = {
    {"qkv forward", 2048, 2304, 768, kPlain, kPlain, false},
    {"projection forward", 2048, 768, 768, kPlain, kPlain, false},
    {"mlp up forward", 2048, 3072, 768, kPlain, kPlain, false},
    {"mlp down forward", 2048, 768, 3072, kPlain, kPlain, false},
    {"qkv d_input", 2048, 768, 2304, kPlain, kTransposed, false},
    {"projection d_input", 2048, 768, 768, kPlain, kTransposed, false},
    {"mlp up d_input", 2048, 768, 3072, kPlain, kTransposed, false},
    {"mlp down d_input", 2048, 3072, 768, kPlain, kTransposed, false},
    {"qkv d_weight", 768, 2304, 2048, kTransposed, kPlain, true},
    {"projection d_weight", 768, 768, 2048, kTransposed, kPlain, true},
    {"mlp up d_weight", 768, 3072, 2048, kTransposed, kPlain, true},
    {"mlp down d_weight", 3072, 768, 2048, kTransposed, kPlain, true},
    {"head logits", 256, 50257, 768, kPlain, kTransposed, false},
    {"head d_input", 256, 768, 50257, kPlain, kPlain, false},
    {"head d_weight", 50257, 768, 256, kTransposed, kPlain, true},
    {"small 128", 256, 128, 128, kPlain, kPlain, false},
    {"small 128 d_input", 256, 128, 128, kPlain, kTransposed, false},
    {"small 128 d_weight", 128, 128, 256, kTransposed, kPlain, true},
    {"small 256", 256, 256, 256, kPlain, kPlain, false},
    {"small 512", 256, 512, 512, kPlain, kPlain, false},
    {"small 512 d_input", 256, 512, 512, kPlain, kTransposed, false},
    {"small 512 d_weight", 512, 512, 256, kTransposed, kPlain, true},
};

// oneDNN with the right operand already in the layout that it prefers.
std::function<void()> PackedProduct(const ProductShape& shape, const Tensor& a, const Tensor& c) {
  using Format = dnnl::memory::format_tag;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const auto matrix = [](int64_t rows, int64_t columns, Format format) {
    return dnnl::memory::desc({rows, columns}, dnnl::memory::data_type::f32, format);
  };
  dnnl::primitive_attr attributes;
  dnnl::post_ops add_to_c;
  if (shape.accumulate) add_to_c.append_sum(1.0f);
  attributes.set_post_ops(add_to_c);
  const dnnl::matmul::primitive_desc desc(
      dnnl::matmul::desc(matrix(shape.m, shape.k, shape.transpose_a ? Format::ba : Format::ab),
                         matrix(shape.k, shape.n, Format::any), matrix(shape.m, shape.n, Format::ab)),
      attributes, engine);
  const dnnl::memory left(desc.src_desc(), engine, a.data), packed(desc.weights_desc(), engine);
  const dnnl::memory result(desc.dst_desc(), engine, c.data);
  return [product = dnnl::matmul(desc), stream = dnnl::stream(engine), left, packed, result] {
    product.execute(stream, {{DNNL_ARG_SRC, left}, {DNNL_ARG_WEIGHTS, packed}, {DNNL_ARG_DST, result}});
  };
}

void MeasureProduct(const ProductShape& shape, MatmulOperations& operations) {
  const Operand a = shape.transpose_a ? Operand({shape.k, shape.m}) : Operand({shape.m, shape.k});
  const Operand b = shape.transpose_b ? Operand({shape.n, shape.k}) : Operand({shape.k, shape.n});
  const Operand c({shape.m, shape.n});
  Matmul matmul;
  matmul.a = a.tensor();
  matmul.b = b.tensor();
  matmul.c = c.tensor();
  matmul.transpose_a = shape.transpose_a;
  matmul.transpose_b = shape.transpose_b;
  matmul.accumulate = shape.accumulate;
  Stream stream;
  const double flops = 2.0 * static_cast<double>(shape.m * shape.n * shape.k);
  std::vector<Contender> contenders = {{flops, [&] { Require(operations.EnqueueMatmul(stream, matmul)); }},
                                       {flops, PackedProduct(shape, a.tensor(), c.tensor())}};
  Measure(contenders);
  const double ours = contenders[0].GigaflopsPerSecond(), packed = contenders[1].GigaflopsPerSecond();
  std::printf("%-20s %6ld x %6ld x %6ld  %7.1f GFLOP/s, packed beforehand %7.1f (%+.1f%%)\n", shape.name,
              static_cast<long>(shape.m), static_cast<long>(shape.n), static_cast<long>(shape.k), ours, packed,
              100 * (packed / ours - 1));
}

// Counts the scores on and below the diagonal: two products forward, five backward.
double FlopsOfAttention(const AttentionShape& shape, int products) {
  const double scores = static_cast<double>(shape.samples * shape.heads) * static_cast<double>(shape.seq) *
                        static_cast<double>(shape.seq + 1) / 2;
  return products * 2.0 * scores * static_cast<double>(shape.head_size);
}

void MeasureAttention(const AttentionShape& shape, double dropout, AttentionOperations& attention,
                      MatmulOperations& matmul) {
  const int64_t hidden = shape.heads * shape.head_size;
  const Operand qkv({shape.samples, shape.seq, 3 * hidden}), output({shape.samples, shape.seq, hidden});
  const Operand log_sum_exp({shape.samples, shape.heads, shape.seq});
  const Operand d_output({shape.samples, shape.seq, hidden}), d_qkv({shape.samples, shape.seq, 3 * hidden});
  AttentionGradient gradient;
  gradient.forward = {.shape = shape,
                      .qkv = qkv.tensor(),
                      .output = output.tensor(),
                      .log_sum_exp = log_sum_exp.tensor(),
                      .dropout = {.probability = dropout, .seed = 1, .first_sample = 0}};
  gradient.d_output = d_output.tensor();
  gradient.d_qkv = d_qkv.tensor();
  const Operand a({2048, 768}), b({768, 2304}), c({2048, 2304});
  Matmul product;
  product.a = a.tensor();
  product.b = b.tensor();
  product.c = c.tensor();
  Stream stream;
  std::vector<Contender> contenders = {
      {2.0 * 2048 * 2304 * 768, [&] { Require(matmul.EnqueueMatmul(stream, product)); }},
      {FlopsOfAttention(shape, 2), [&] { Require(attention.EnqueueForward(stream, gradient.forward)); }},
      {FlopsOfAttention(shape, 5), [&] { Require(attention.EnqueueBackward(stream, gradient)); }}};
  Measure(contenders);
  const double reference = contenders[0].GigaflopsPerSecond();
  std::printf(
      "%3ld x %5ld, %2ld heads of %3ld, dropout %.1f: product %6.1f GFLOP/s, forward %6.1f (%2.0f%%), "
      "backward %6.1f (%2.0f%%)\n",
      static_cast<long>(shape.samples), static_cast<long>(shape.seq), static_cast<long>(shape.heads),
      static_cast<long>(shape.head_size), dropout, reference, contenders[1].GigaflopsPerSecond(),
      100 * contenders[1].GigaflopsPerSecond() / reference, contenders[2].GigaflopsPerSecond(),
      100 * contenders[2].GigaflopsPerSecond() / reference);
}

int Run(int threads) {
  omp_set_num_threads(threads);  // of the products that call oneDNN directly
  CpuWorkspace workspace;
  absl::StatusOr<std::unique_ptr<CpuMatmulOperations>> matmul = CpuMatmulOperations::Create(threads, &workspace);
  if (!matmul.ok()) Fail(matmul.status());
  CpuAttentionOperations attention(threads, &workspace);
  std::printf("%d thread(s)\nattention\n", threads);
  for (const double dropout : {0.0, 0.1}) {
    MeasureAttention({4, 512, 12, 64}, dropout, attention, **matmul);
    MeasureAttention({8, 128, 4, 32}, dropout, attention, **matmul);
  }
  MeasureAttention({1, 1024, 16, 128}, 0, attention, **matmul);
  MeasureAttention({4, 500, 12, 60}, 0.1, attention, **matmul);
  std::printf("products, m x n x k\n");
  for (const ProductShape& shape : kProducts) MeasureProduct(shape, **matmul);
  return 0;
}

}  // namespace
}  // namespace stagecoach

int main(int argc, char** argv) { return stagecoach::Run(argc > 1 ? std::max(1, std::atoi(argv[1])) : 1); }
