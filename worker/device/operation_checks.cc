#include "worker/device/operation_checks.h"

#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

// One operand as an operation wants it. `rows` and `columns` are -1 where anything goes.
struct Expected {
  const char* name;
  const Tensor& tensor;
  v1::DType dtype;
  int64_t rows = -1;
  int64_t columns = -1;
};

absl::Status Mismatch(const char* operation, const Expected& expected, absl::string_view wanted) {
  return absl::InvalidArgumentError(
      absl::StrCat(operation, ": ", expected.name, " is ", expected.tensor.ShapeString(), ", must be ", wanted));
}

std::string Describe(const Expected& expected) {
  const auto size = [](int64_t dim) { return dim < 0 ? std::string("any") : absl::StrCat(dim); };
  return absl::StrCat(DTypeName(expected.dtype), " of ", size(expected.rows), " rows and ", size(expected.columns),
                      " columns");
}

absl::Status Check(const char* operation, const Expected& expected) {
  const Tensor& t = expected.tensor;
  for (int i = 0; i < t.rank; ++i) {
    if (t.dims[static_cast<size_t>(i)] < 0) return Mismatch(operation, expected, "of sizes that are not negative");
  }
  if (t.rank == 0 || (t.empty() && t.num_elements() != 0)) return Mismatch(operation, expected, "a tensor with memory");
  if (t.dtype != expected.dtype || (expected.rows >= 0 && t.rows() != expected.rows) ||
      (expected.columns >= 0 && t.columns() != expected.columns)) {
    return Mismatch(operation, expected, Describe(expected));
  }
  return absl::OkStatus();
}

// A vector of `size` elements, whatever its rank.
absl::Status CheckVector(const char* operation, const char* name, const Tensor& t, v1::DType dtype, int64_t size) {
  const Expected expected{name, t, dtype};
  STAGECOACH_RETURN_IF_ERROR(Check(operation, expected));
  if (t.num_elements() != size) return Mismatch(operation, expected, absl::StrCat("of ", size, " elements"));
  return absl::OkStatus();
}

absl::Status CheckRank(const char* operation, const char* name, const Tensor& t, int rank) {
  if (t.rank == rank) return absl::OkStatus();
  return Mismatch(operation, {name, t, t.dtype}, absl::StrCat("of rank ", rank));
}

// Host memory of i32 in [first, last).
absl::Status CheckRange(const char* operation, const char* name, const Tensor& t, int64_t first, int64_t last) {
  const int32_t* values = t.as<int32_t>();
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    if (values[i] >= first && values[i] < last) continue;
    return absl::InvalidArgumentError(absl::StrCat(operation, ": element ", i, " of ", name, " ", t.ShapeString(),
                                                   " is ", values[i], ", must be less than ", last,
                                                   first == 0 ? " and not negative" : ""));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTensor(const char* operation, const char* operand, const Tensor& t, v1::DType dtype) {
  return Check(operation, {operand, t, dtype});
}

absl::Status CheckSameMatrix(const char* operation, const Tensor& a, const Tensor& b, v1::DType compute) {
  STAGECOACH_RETURN_IF_ERROR(Check(operation, {"the first operand", a, compute}));
  return Check(operation, {"the second operand", b, compute, a.rows(), a.columns()});
}

absl::Status CheckSameMatrix(const char* operation, const Tensor& a, const Tensor& b, const Tensor& c,
                             v1::DType compute) {
  STAGECOACH_RETURN_IF_ERROR(CheckSameMatrix(operation, a, b, compute));
  return Check(operation, {"the third operand", c, compute, a.rows(), a.columns()});
}

absl::Status CheckMatmul(const Matmul& matmul, v1::DType compute) {
  const char* const kName = "matmul";
  STAGECOACH_RETURN_IF_ERROR(CheckRank(kName, "a", matmul.a, 2));
  STAGECOACH_RETURN_IF_ERROR(CheckRank(kName, "b", matmul.b, 2));
  STAGECOACH_RETURN_IF_ERROR(CheckRank(kName, "c", matmul.c, 2));
  STAGECOACH_RETURN_IF_ERROR(Check(kName, {"a", matmul.a, compute}));
  const int64_t m = matmul.transpose_a ? matmul.a.columns() : matmul.a.rows();
  const int64_t k = matmul.transpose_a ? matmul.a.rows() : matmul.a.columns();
  STAGECOACH_RETURN_IF_ERROR(matmul.transpose_b ? Check(kName, {"b", matmul.b, compute, -1, k})
                                                : Check(kName, {"b", matmul.b, compute, k, -1}));
  const int64_t n = matmul.transpose_b ? matmul.b.rows() : matmul.b.columns();
  STAGECOACH_RETURN_IF_ERROR(Check(kName, {"c", matmul.c, compute, m, n}));
  if (matmul.bias.empty()) return absl::OkStatus();
  return CheckVector(kName, "bias", matmul.bias, compute, n);
}

absl::Status CheckColumnSum(const Tensor& rows, const Tensor& sum, v1::DType compute) {
  STAGECOACH_RETURN_IF_ERROR(Check("column sum", {"rows", rows, compute}));
  return CheckVector("column sum", "sum", sum, compute, rows.columns());
}

absl::Status CheckDropout(const Dropout& dropout) {
  if (dropout.probability >= 0 && dropout.probability < 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("dropout: the probability is ", dropout.probability, ", must be in [0, 1)"));
}

absl::Status CheckAttention(const Attention& attention, v1::DType compute) {
  const char* const kName = "attention";
  const AttentionShape& shape = attention.shape;
  if (shape.samples < 0 || shape.seq < 0 || shape.heads <= 0 || shape.head_size <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("attention: sizes are samples ", shape.samples, ", seq ", shape.seq,
                                                   ", heads ", shape.heads, ", head_size ", shape.head_size,
                                                   ": the first two may not be negative, the others are positive"));
  }
  STAGECOACH_RETURN_IF_ERROR(CheckDropout(attention.dropout));
  const int64_t rows = shape.samples * shape.seq;
  const int64_t hidden = shape.heads * shape.head_size;
  STAGECOACH_RETURN_IF_ERROR(Check(kName, {"qkv", attention.qkv, compute, rows, 3 * hidden}));
  STAGECOACH_RETURN_IF_ERROR(Check(kName, {"output", attention.output, compute, rows, hidden}));
  return CheckVector(kName, "log_sum_exp", attention.log_sum_exp, compute, rows * shape.heads);
}

absl::Status CheckAttentionGradient(const AttentionGradient& gradient, v1::DType compute) {
  STAGECOACH_RETURN_IF_ERROR(CheckAttention(gradient.forward, compute));
  const AttentionShape& shape = gradient.forward.shape;
  const int64_t rows = shape.samples * shape.seq;
  const int64_t hidden = shape.heads * shape.head_size;
  STAGECOACH_RETURN_IF_ERROR(Check("attention", {"d_output", gradient.d_output, compute, rows, hidden}));
  return Check("attention", {"d_qkv", gradient.d_qkv, compute, rows, 3 * hidden});
}

absl::Status CheckNorm(const NormOperands& operands, v1::DType compute) {
  const char* const kName = "layer norm";
  STAGECOACH_RETURN_IF_ERROR(Check(kName, {"x", operands.x, compute}));
  const int64_t rows = operands.x.rows();
  const int64_t columns = operands.x.columns();
  if (columns == 0) return Mismatch(kName, {"x", operands.x, compute}, "of at least one column");
  STAGECOACH_RETURN_IF_ERROR(Check(kName, {"y, its gradient or the input's", operands.y, compute, rows, columns}));
  STAGECOACH_RETURN_IF_ERROR(Check(kName, {"mean_rstd", operands.mean_rstd, compute, rows, 2}));
  const std::pair<const char*, const Tensor*> vectors[] = {
      {"gamma", operands.gamma}, {"beta", operands.beta}, {"d_gamma", operands.d_gamma}, {"d_beta", operands.d_beta}};
  for (const auto& [name, vector] : vectors) {
    if (vector == nullptr) continue;
    STAGECOACH_RETURN_IF_ERROR(CheckVector(kName, name, *vector, compute, columns));
  }
  return absl::OkStatus();
}

absl::Status CheckNormEpsilon(double epsilon) {
  if (std::isfinite(epsilon) && epsilon >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("layer norm: epsilon is ", epsilon, ", must be finite and not negative"));
}

absl::Status CheckDropoutAdd(const Tensor& x, const Dropout& dropout, const Tensor& residual, const Tensor& y,
                             v1::DType compute) {
  const char* const kName = "dropout";
  STAGECOACH_RETURN_IF_ERROR(CheckDropout(dropout));
  STAGECOACH_RETURN_IF_ERROR(Check(kName, {"x", x, compute}));
  if (x.rank < 2) return Mismatch(kName, {"x", x, compute}, "of rank 2 or more: the first dimension counts samples");
  STAGECOACH_RETURN_IF_ERROR(Check(kName, {"y", y, compute, x.rows(), x.columns()}));
  if (residual.empty()) return absl::OkStatus();
  return Check(kName, {"residual", residual, compute, x.rows(), x.columns()});
}

absl::Status CheckEmbedding(const Tensor& tokens, const Tensor& table, const Tensor& positions, const Tensor& y,
                            v1::DType compute) {
  const char* const kName = "embedding";
  STAGECOACH_RETURN_IF_ERROR(CheckRank(kName, "tokens", tokens, 2));
  STAGECOACH_RETURN_IF_ERROR(CheckRank(kName, "table", table, 2));
  STAGECOACH_RETURN_IF_ERROR(CheckRank(kName, "positions", positions, 2));
  STAGECOACH_RETURN_IF_ERROR(Check(kName, {"tokens", tokens, v1::DTYPE_I32}));
  STAGECOACH_RETURN_IF_ERROR(Check(kName, {"table", table, compute}));
  STAGECOACH_RETURN_IF_ERROR(Check(kName, {"positions", positions, compute, -1, table.columns()}));
  STAGECOACH_RETURN_IF_ERROR(Check(kName, {"y", y, compute, tokens.num_elements(), table.columns()}));
  if (tokens.columns() > positions.rows()) {
    return Mismatch(kName, {"positions", positions, compute}, absl::StrCat("of at least ", tokens.columns(), " rows"));
  }
  return CheckRange(kName, "tokens", tokens, 0, table.rows());
}

absl::Status CheckCrossEntropy(const Tensor& logits, const Tensor& labels, const Tensor& log_sum_exp,
                               const Tensor& loss, v1::DType compute) {
  const char* const kName = "cross entropy";
  STAGECOACH_RETURN_IF_ERROR(Check(kName, {"logits", logits, compute}));
  const int64_t rows = logits.rows();
  STAGECOACH_RETURN_IF_ERROR(CheckVector(kName, "labels", labels, v1::DTYPE_I32, rows));
  STAGECOACH_RETURN_IF_ERROR(CheckVector(kName, "log_sum_exp", log_sum_exp, compute, rows));
  STAGECOACH_RETURN_IF_ERROR(CheckVector(kName, "loss", loss, v1::DTYPE_F64, rows));
  return CheckRange(kName, "labels", labels, INT32_MIN, logits.columns());
}

absl::Status CheckCrossEntropyGradient(const Tensor& logits, int64_t first_column, const Tensor& labels,
                                       const Tensor& log_sum_exp, v1::DType compute) {
  const char* const kName = "cross entropy gradient";
  if (first_column < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(kName, ": first_column is ", first_column, ", must not be negative"));
  }
  STAGECOACH_RETURN_IF_ERROR(Check(kName, {"logits", logits, compute}));
  STAGECOACH_RETURN_IF_ERROR(CheckVector(kName, "labels", labels, v1::DTYPE_I32, logits.rows()));
  return CheckVector(kName, "log_sum_exp", log_sum_exp, compute, logits.rows());
}

absl::Status CheckAdamW(const Tensor& parameter, const Tensor& gradient, const Tensor& exp_avg,
                        const Tensor& exp_avg_sq, v1::DType compute) {
  STAGECOACH_RETURN_IF_ERROR(Check("adamw", {"parameter", parameter, compute}));
  const int64_t rows = parameter.rows();
  const int64_t columns = parameter.columns();
  STAGECOACH_RETURN_IF_ERROR(Check("adamw", {"gradient", gradient, compute, rows, columns}));
  STAGECOACH_RETURN_IF_ERROR(Check("adamw", {"exp_avg", exp_avg, compute, rows, columns}));
  return Check("adamw", {"exp_avg_sq", exp_avg_sq, compute, rows, columns});
}

absl::Status CheckSgd(const Tensor& parameter, const Tensor& gradient, const Tensor& momentum, v1::DType compute) {
  STAGECOACH_RETURN_IF_ERROR(Check("sgd", {"parameter", parameter, compute}));
  STAGECOACH_RETURN_IF_ERROR(Check("sgd", {"gradient", gradient, compute, parameter.rows(), parameter.columns()}));
  if (momentum.empty()) return absl::OkStatus();
  return Check("sgd", {"momentum", momentum, compute, parameter.rows(), parameter.columns()});
}

absl::Status CheckSquaredNorm(const Tensor& t, const Tensor& squared_norm, const Tensor& num_non_finite,
                              v1::DType compute) {
  STAGECOACH_RETURN_IF_ERROR(Check("squared norm", {"the tensor", t, compute}));
  STAGECOACH_RETURN_IF_ERROR(CheckVector("squared norm", "squared_norm", squared_norm, v1::DTYPE_F64, 1));
  return CheckVector("squared norm", "num_non_finite", num_non_finite, v1::DTYPE_I64, 1);
}

absl::Status CheckDigest(const Tensor& t, const Tensor& digest) {
  if (BytesOf(t.dtype) == 0) return Mismatch("digest", {"the tensor", t, t.dtype}, "of a known dtype");
  STAGECOACH_RETURN_IF_ERROR(Check("digest", {"the tensor", t, t.dtype}));
  return CheckVector("digest", "digest", digest, v1::DTYPE_U64, 2);
}

}  // namespace stagecoach
