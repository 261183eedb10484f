#include "worker/device/cpu/cpu_matmul_operations.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/memory_layout.h"
#include "common/status_macros.h"
#include "worker/device/cpu/column_sum.h"
#include "worker/device/operation_checks.h"

namespace stagecoach {
namespace {

struct Shape {
  int64_t m, n, k;
  bool transpose_a, transpose_b, accumulate, bias;

  friend bool operator==(const Shape&, const Shape&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Shape& s) {
    return H::combine(std::move(h), s.m, s.n, s.k, s.transpose_a, s.transpose_b, s.accumulate, s.bias);
  }
  std::string ToString() const {
    return absl::StrCat("matmul of ", m, " x ", k, transpose_a ? " (transposed)" : "", " and ", k, " x ", n,
                        transpose_b ? " (transposed)" : "", accumulate ? ", accumulated" : "", bias ? ", biased" : "");
  }
};

Shape ShapeOf(const Matmul& matmul) {
  return {matmul.c.dims[0],    matmul.c.dims[1],   matmul.a.dims[matmul.transpose_a ? 0 : 1],
          matmul.transpose_a,  matmul.transpose_b, matmul.accumulate,
          !matmul.bias.empty()};
}

// Whether the right operand is packed in the call: see the class comment. By the shape alone, as it changes bits.
bool PacksB(const Shape& shape) {
  return !shape.transpose_a && !shape.transpose_b && shape.m >= 1024 && shape.n >= 256 && shape.k >= 256;
}

// The one place where oneDNN's exceptions end.
template <typename Body>
absl::Status CatchOneDnnErrors(const Body& body) {
  try {
    body();
    return absl::OkStatus();
  } catch (const dnnl::error& error) {
    const std::string message =
        absl::StrCat("oneDNN: ", error.what(), " (status ", static_cast<int>(error.status), ")");
    if (error.status == dnnl_out_of_memory) return absl::ResourceExhaustedError(message);
    return absl::InternalError(message);
  }
}

using Type = dnnl::memory::data_type;
using Format = dnnl::memory::format_tag;

dnnl::memory::desc MatrixOf(int64_t rows, int64_t columns, Format format) {
  return dnnl::memory::desc({rows, columns}, Type::f32, format);
}

Format PlainFormat(bool transposed) { return transposed ? Format::ba : Format::ab; }

dnnl::matmul::primitive_desc Describe(const Shape& shape, const dnnl::engine& engine) {
  const auto a = MatrixOf(shape.m, shape.k, PlainFormat(shape.transpose_a));
  const auto b = MatrixOf(shape.k, shape.n, PacksB(shape) ? Format::any : PlainFormat(shape.transpose_b));
  const auto c = MatrixOf(shape.m, shape.n, Format::ab);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (shape.accumulate) {
    dnnl::post_ops add_to_c;
    add_to_c.append_sum(1.0f);
    attributes.set_post_ops(add_to_c);
  }
  const auto operation =
      shape.bias ? dnnl::matmul::desc(a, b, MatrixOf(1, shape.n, Format::ab), c) : dnnl::matmul::desc(a, b, c);
  return dnnl::matmul::primitive_desc(operation, attributes, engine);
}

// A oneDNN primitive of one shape with its argument objects, whose addresses are set before every execution: oneDNN is
// called by its C interface with arguments that exist already, so that nothing of ours allocates.
class Product {
 public:
  Product(const Shape& shape, const dnnl::engine& engine) : Product(shape, engine, Describe(shape, engine)) {}

  size_t workspace_bytes() const { return AlignUp(scratch_.bytes) + AlignUp(packed_b_.bytes); }

  void Execute(const dnnl::stream& stream, const Matmul& matmul, std::byte* workspace) {
    void* right = matmul.b.data;
    if (pack_) {
      std::byte* const packed = workspace + AlignUp(scratch_.bytes);
      plain_b_.SetAddress(right);
      packed_b_.SetAddress(packed);
      const std::array<dnnl_exec_arg_t, 2> arguments = {
          {{DNNL_ARG_FROM, plain_b_.memory.get()}, {DNNL_ARG_TO, packed_b_.memory.get()}}};
      Run(pack_, stream, arguments.data(), arguments.size());
      right = packed;
    }
    a_.SetAddress(matmul.a.data);
    b_.SetAddress(right);
    c_.SetAddress(matmul.c.data);
    scratch_.SetAddress(workspace);
    std::array<dnnl_exec_arg_t, 5> arguments = {{{DNNL_ARG_SRC, a_.memory.get()},
                                                 {DNNL_ARG_WEIGHTS, b_.memory.get()},
                                                 {DNNL_ARG_DST, c_.memory.get()},
                                                 {DNNL_ARG_SCRATCHPAD, scratch_.memory.get()},
                                                 {DNNL_ARG_BIAS, nullptr}}};
    size_t count = 4;
    if (bias_.bytes > 0) {
      bias_.SetAddress(matmul.bias.data);
      arguments[count++].memory = bias_.memory.get();
    }
    Run(product_, stream, arguments.data(), count);
  }

 private:
  struct Argument {
    dnnl::memory memory;
    size_t bytes = 0;
    void* address = nullptr;

    Argument() = default;
    Argument(const dnnl::memory::desc& desc, const dnnl::engine& engine)
        : memory(desc, engine, nullptr), bytes(desc.get_size()) {}
    void SetAddress(void* to) {
      if (to == address) return;
      address = to;
      memory.set_data_handle(to);
    }
  };

  Product(const Shape& shape, const dnnl::engine& engine, const dnnl::matmul::primitive_desc& desc)
      : product_(desc),
        a_(desc.src_desc(), engine),
        b_(desc.weights_desc(), engine),
        c_(desc.dst_desc(), engine),
        scratch_(desc.scratchpad_desc(), engine) {
    if (shape.bias) bias_ = Argument(desc.bias_desc(), engine);
    const auto plain = MatrixOf(shape.k, shape.n, PlainFormat(shape.transpose_b));
    if (desc.weights_desc() == plain) return;
    plain_b_ = Argument(plain, engine);
    packed_b_ = Argument(desc.weights_desc(), engine);
    // The scratchpad of a reorder of f32 is empty: it needs no user-provided one.
    pack_ = dnnl::reorder(dnnl::reorder::primitive_desc(engine, plain, engine, desc.weights_desc()));
  }

  static void Run(const dnnl::primitive& primitive, const dnnl::stream& stream, const dnnl_exec_arg_t* arguments,
                  size_t count) {
    dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive.get(), stream.get(), static_cast<int>(count), arguments),
                            "could not execute a primitive");
  }

  dnnl::primitive product_;
  dnnl::primitive pack_;
  Argument a_, b_, c_, bias_, scratch_, plain_b_, packed_b_;
};

// c = (c if accumulate, else 0) + bias: a product over no k, which oneDNN divides by.
void EmptyProduct(const Matmul& matmul) {
  const int64_t columns = matmul.c.dims[1];
  auto* row = matmul.c.as<float>();
  for (int64_t i = 0; i < matmul.c.dims[0]; ++i, row += columns) {
    if (!matmul.accumulate) std::fill_n(row, columns, 0.0f);
    for (int64_t j = 0; j < columns && !matmul.bias.empty(); ++j) row[j] += matmul.bias.as<float>()[j];
  }
}

}  // namespace

// The engine and the primitives made so far.
class CpuMatmulOperations::OneDnn {
 public:
  explicit OneDnn(CpuWorkspace* workspace)
      : workspace_(workspace), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

  absl::Status Multiply(const Matmul& matmul) {
    const Shape shape = ShapeOf(matmul);
    auto found = products_.find(shape);
    if (found == products_.end()) {
      // Shapes vary by the rows of a micro-batch only; the bound is for what was not thought of.
      if (products_.size() >= kMaxProducts) products_.clear();
      std::unique_ptr<Product> product;
      STAGECOACH_RETURN_IF_ERROR(WithContext(
          CatchOneDnnErrors([&] { product = std::make_unique<Product>(shape, engine_); }), shape.ToString()));
      found = products_.emplace(shape, std::move(product)).first;
    }
    Product& product = *found->second;
    STAGECOACH_ASSIGN_OR_RETURN(std::byte* const workspace, workspace_->Reserve(product.workspace_bytes()));
    absl::Status status = CatchOneDnnErrors([&] { product.Execute(stream_, matmul, workspace); });
    return status.ok() ? status : WithContext(status, shape.ToString());
  }

 private:
  static constexpr size_t kMaxProducts = 256;

  CpuWorkspace* const workspace_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  absl::flat_hash_map<Shape, std::unique_ptr<Product>> products_;
};

CpuMatmulOperations::CpuMatmulOperations(int threads, std::unique_ptr<OneDnn> one_dnn)
    : threads_(threads), one_dnn_(std::move(one_dnn)) {}
CpuMatmulOperations::~CpuMatmulOperations() = default;

absl::StatusOr<std::unique_ptr<CpuMatmulOperations>> CpuMatmulOperations::Create(int threads, CpuWorkspace* workspace) {
  std::unique_ptr<OneDnn> one_dnn;
  STAGECOACH_RETURN_IF_ERROR(CatchOneDnnErrors([&] { one_dnn = std::make_unique<OneDnn>(workspace); }));
  return std::unique_ptr<CpuMatmulOperations>(new CpuMatmulOperations(threads, std::move(one_dnn)));
}

absl::Status CpuMatmulOperations::EnqueueMatmul(Stream& stream, const Matmul& matmul) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckMatmul(matmul, v1::DTYPE_F32));
  const Shape shape = ShapeOf(matmul);
  if (shape.m == 0 || shape.n == 0) return absl::OkStatus();
  if (shape.k == 0) {
    EmptyProduct(matmul);
    return absl::OkStatus();
  }
  // OpenMP keeps the number per calling thread, and oneDNN reads it when it makes a primitive and when it runs one.
  // Setting it here, at the cost of a store, keeps devices with different numbers apart on one thread.
  omp_set_num_threads(threads_);
  return one_dnn_->Multiply(matmul);
}

absl::Status CpuMatmulOperations::EnqueueColumnSum(Stream& stream, const Tensor& rows, const Tensor& sum) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckColumnSum(rows, sum, v1::DTYPE_F32));
  AddColumnSums(threads_, rows.as<float>(), rows.rows(), rows.columns(), sum.as<float>());
  return absl::OkStatus();
}

}  // namespace stagecoach
