#include "tests/conformance/device_operations.h"

#include <cmath>
#include <utility>

#include "common/check.h"

namespace stagecoach {
namespace {

constexpr double kUnit = 0x1p-24;  // f32 rounds to within so much
using Operands = std::vector<Operand>;

Operand In(Tensor tensor, Freedom freedom = Freedom::kNone) {
  return {.tensor = std::move(tensor), .freedom = freedom};
}
Operand Out(Tensor tensor, double reach, Freedom freedom = Freedom::kNone) {
  return {.tensor = std::move(tensor), .output = true, .freedom = freedom, .reach = reach};
}

Operand Optional(Tensor tensor) { return {.tensor = std::move(tensor), .optional = true}; }

std::vector<double> Mapped(std::vector<double> values, double (*f)(double)) {
  for (double& value : values) value = f(value);
  return values;
}

// ---- matmul: sums of k products, k + 2 roundings at most

void AddMatmuls(TestDevice& device, const ModelShape& shape, std::vector<Operation>& operations) {
  const int64_t m = shape.rows();
  const int64_t k = shape.hidden();
  const int64_t n = shape.vocab;
  const double size = static_cast<double>(k);
  const auto matmul = [](Matmul options) {
    return [options](TensorOperations& on, Stream& stream, const Operands& operands) {
      Matmul call = options;
      call.a = operands[0].tensor;
      call.b = operands[1].tensor;
      call.c = operands[2].tensor;
      if (operands.size() > 3) call.bias = operands[3].tensor;
      return on.matmul().EnqueueMatmul(stream, call);
    };
  };
  Matmul transposed_b, twice_transposed, accumulated;
  transposed_b.transpose_b = true;
  twice_transposed.transpose_a = twice_transposed.transpose_b = true;
  accumulated.transpose_a = accumulated.accumulate = true;
  const double tolerance = kUnit * (size + 2);
  operations.push_back({"Matmul",
                        tolerance,
                        false,
                        {In(device.Random(1, {m, k})), In(device.Random(2, {k, n})), Out(device.New({m, n}), size)},
                        matmul(Matmul())});
  operations.push_back({"MatmulWithBias",
                        tolerance,
                        false,
                        {In(device.Random(1, {m, k})), In(device.Random(2, {n, k})), Out(device.New({m, n}), size + 1),
                         Optional(device.Random(3, {n}))},
                        matmul(transposed_b)});
  operations.push_back({"MatmulTwiceTransposed",
                        tolerance,
                        false,
                        {In(device.Random(1, {k, m})), In(device.Random(2, {n, k})), Out(device.New({m, n}), size)},
                        matmul(twice_transposed)});
  const double rows = static_cast<double>(m);
  operations.push_back(
      {"MatmulAccumulated",
       kUnit * (rows + 2),
       false,
       {In(device.Random(1, {m, k})), In(device.Random(2, {m, n})), Out(device.Random(3, {k, n}), rows + 1)},
       matmul(accumulated)});
  operations.push_back({"ColumnSum",
                        kUnit * (rows + 2),
                        true,
                        {In(device.Random(1, {m, k}), Freedom::kRows), Out(device.Random(2, {k}), rows + 1)},
                        [](TensorOperations& on, Stream& stream, const Operands& operands) {
                          return on.matmul().EnqueueColumnSum(stream, operands[0].tensor, operands[1].tensor);
                        }});
}

// ---- attention: scores within (head_size + 2) units of their terms, which exp turns into a relative error

Attention AttentionOf(const ModelShape& shape, double probability, const Operands& operands) {
  return {.shape = {shape.samples, shape.seq, shape.heads, shape.head_size},
          .qkv = operands[0].tensor,
          .output = operands[1].tensor,
          .log_sum_exp = operands[2].tensor,
          .dropout = {probability, 77, 1000}};
}

// The output and log_sum_exp that a backward pass reads, from the reference.
std::pair<std::vector<double>, std::vector<double>> AttentionForward(const ModelShape& shape, double probability) {
  TestDevice reference(ReferenceUnderTest());
  const Operands operands = {In(reference.Random(1, {shape.samples, shape.seq, 3 * shape.hidden()})),
                             In(reference.New({shape.samples, shape.seq, shape.hidden()})),
                             In(reference.New({shape.samples, shape.heads, shape.seq}))};
  STAGECOACH_CHECK(reference.operations()
                       .attention()
                       .EnqueueForward(reference.stream(), AttentionOf(shape, probability, operands))
                       .ok());
  return {ValuesOf(operands[1].tensor), ValuesOf(operands[2].tensor)};
}

void AddAttention(TestDevice& device, const ModelShape& shape, std::vector<Operation>& operations) {
  const double size = static_cast<double>(shape.head_size);
  const double seq = static_cast<double>(shape.seq);
  const double tolerance = kUnit * (size + seq + 32);
  for (const double probability : {0.0, 0.25}) {
    const Tensor qkv = device.Random(1, {shape.samples, shape.seq, 3 * shape.hidden()});
    const std::string suffix = probability == 0 ? "" : "WithDropout";
    operations.push_back({"AttentionForward" + suffix,
                          tolerance,
                          false,
                          {In(qkv), Out(device.New({shape.samples, shape.seq, shape.hidden()}), 2),
                           Out(device.New({shape.samples, shape.heads, shape.seq}), 1)},
                          [=](TensorOperations& on, Stream& stream, const Operands& operands) {
                            return on.attention().EnqueueForward(stream, AttentionOf(shape, probability, operands));
                          }});
    const std::pair<std::vector<double>, std::vector<double>> forward = AttentionForward(shape, probability);
    operations.push_back(
        {"AttentionBackward" + suffix,
         tolerance,
         false,
         {In(qkv), In(device.From(forward.first, {shape.samples, shape.seq, shape.hidden()})),
          In(device.From(forward.second, {shape.samples, shape.heads, shape.seq})),
          In(device.Random(2, {shape.samples, shape.seq, shape.hidden()})),
          Out(device.New({shape.samples, shape.seq, 3 * shape.hidden()}), 2 * (size + std::sqrt(seq)))},
         [=](TensorOperations& on, Stream& stream, const Operands& operands) {
           return on.attention().EnqueueBackward(stream, {.forward = AttentionOf(shape, probability, operands),
                                                          .d_output = operands[3].tensor,
                                                          .d_qkv = operands[4].tensor});
         }});
  }
}

// ---- layer norm: x - mean cancels, so errors are relative to x / standard deviation, which is below 100 here

void AddNorms(TestDevice& device, const ModelShape& shape, std::vector<Operation>& operations) {
  const int64_t hidden = shape.hidden();
  const double rows = static_cast<double>(shape.rows());
  const auto matrix = [&](uint64_t seed) { return device.Random(seed, {shape.samples, shape.seq, hidden}); };
  const auto statistics = [&] {
    std::vector<double> values = RandomValues(2 * shape.rows(), 5);
    for (size_t i = 0; i < values.size(); ++i) values[i] = i % 2 == 0 ? values[i] / 4 : 1.5 + values[i] / 2;
    return device.From(values, {shape.rows(), 2});
  };
  operations.push_back({"LayerNorm",
                        64 * kUnit,
                        true,
                        {In(matrix(1)), In(device.Random(2, {hidden})), In(device.Random(3, {hidden})),
                         Out(device.New({shape.samples, shape.seq, hidden}), 4), Out(device.New({shape.rows(), 2}), 1)},
                        [](TensorOperations& on, Stream& stream, const Operands& operands) {
                          return on.norm().EnqueueForward(stream, operands[0].tensor, operands[1].tensor,
                                                          operands[2].tensor, 1e-2, operands[3].tensor,
                                                          operands[4].tensor);
                        }});
  for (const bool accumulate : {false, true}) {
    operations.push_back(
        {accumulate ? "LayerNormBackwardInputAccumulated" : "LayerNormBackwardInput",
         16 * kUnit,
         true,
         {In(matrix(1)), In(statistics()), In(device.Random(2, {hidden})), In(matrix(3)), Out(matrix(4), 16)},
         [=](TensorOperations& on, Stream& stream, const Operands& operands) {
           return on.norm().EnqueueBackwardInput(stream, operands[0].tensor, operands[1].tensor, operands[2].tensor,
                                                 operands[3].tensor, accumulate, operands[4].tensor);
         }});
  }
  operations.push_back({"LayerNormBackwardWeight",
                        kUnit * (rows + 4),
                        true,
                        {In(matrix(1)), In(statistics()), In(matrix(2)), Out(device.Random(3, {hidden}), 3 * rows + 1),
                         Out(device.Random(4, {hidden}), rows + 1)},
                        [](TensorOperations& on, Stream& stream, const Operands& operands) {
                          return on.norm().EnqueueBackwardWeight(stream, operands[0].tensor, operands[1].tensor,
                                                                 operands[2].tensor, operands[3].tensor,
                                                                 operands[4].tensor);
                        }});
}

// ---- elementwise

void AddElementwise(TestDevice& device, const ModelShape& shape, std::vector<Operation>& operations) {
  const auto dims = {shape.samples, shape.seq, shape.hidden()};
  const auto wide = [&](uint64_t seed) {  // where tanh saturates too
    return device.From(Mapped(RandomValues(shape.rows() * shape.hidden(), seed), [](double x) { return 12 * x; }),
                       dims);
  };
  operations.push_back({"Gelu",
                        4 * kUnit,
                        true,
                        {In(wide(1)), Out(device.New(dims), 12)},
                        [](TensorOperations& on, Stream& stream, const Operands& operands) {
                          return on.elementwise().EnqueueGelu(stream, operands[0].tensor, operands[1].tensor);
                        }});
  operations.push_back({"GeluGradient",
                        16 * kUnit,
                        true,
                        {In(wide(1)), In(device.Random(2, dims)), Out(device.New(dims), 2)},
                        [](TensorOperations& on, Stream& stream, const Operands& operands) {
                          return on.elementwise().EnqueueGeluGradient(stream, operands[0].tensor, operands[1].tensor,
                                                                      operands[2].tensor);
                        }});
  operations.push_back({"Add",
                        kUnit,
                        true,
                        {In(device.Random(1, dims)), In(device.Random(2, dims)), Out(device.New(dims), 0)},
                        [](TensorOperations& on, Stream& stream, const Operands& operands) {
                          return on.elementwise().EnqueueAdd(stream, operands[0].tensor, operands[1].tensor,
                                                             operands[2].tensor);
                        }});
}

void AddDropout(TestDevice& device, const ModelShape& shape, std::vector<Operation>& operations) {
  const auto dims = {shape.samples, shape.seq, shape.hidden()};
  for (const double probability : {0.0, 0.1, 0.9}) {
    const std::string suffix = std::to_string(static_cast<int>(100 * probability));
    operations.push_back({"Dropout" + suffix,
                          2 * kUnit,
                          true,
                          {In(device.Random(1, dims)), Out(device.New(dims), 0)},
                          [=](TensorOperations& on, Stream& stream, const Operands& operands) {
                            return on.elementwise().EnqueueDropoutAdd(stream, operands[0].tensor, {probability, 5, 9},
                                                                      Tensor(), operands[1].tensor);
                          }});
    operations.push_back({"DropoutAdd" + suffix,
                          3 * kUnit,
                          true,
                          {In(device.Random(1, dims)), Optional(device.Random(2, dims)), Out(device.New(dims), 11)},
                          [=](TensorOperations& on, Stream& stream, const Operands& operands) {
                            return on.elementwise().EnqueueDropoutAdd(stream, operands[0].tensor, {probability, 5, 9},
                                                                      operands[1].tensor, operands[2].tensor);
                          }});
  }
}

void AddFills(TestDevice& device, const ModelShape& shape, std::vector<Operation>& operations) {
  const auto dims = {shape.samples, shape.seq, shape.hidden()};
  operations.push_back({"Fill",
                        kUnit,
                        true,
                        {Out(device.Random(1, dims), 0, Freedom::kShape)},
                        [](TensorOperations& on, Stream& stream, const Operands& operands) {
                          return on.elementwise().EnqueueFill(stream, operands[0].tensor, 0.1);
                        }});
  operations.push_back({"Normal",
                        kUnit,
                        true,
                        {Out(device.New(dims), 0, Freedom::kShape)},
                        [](TensorOperations& on, Stream& stream, const Operands& operands) {
                          return on.elementwise().EnqueueNormal(stream, operands[0].tensor, 0.02, 0x123456789abcdef);
                        }});
}

// ---- vocabulary

std::vector<int32_t> Tokens(int64_t count, int64_t vocab) {
  std::vector<int32_t> tokens;
  for (const double value : RandomValues(count, 8)) {
    tokens.push_back(static_cast<int32_t>((value + 1) / 2 * static_cast<double>(vocab)));
  }
  return tokens;
}

void AddEmbeddings(TestDevice& device, const ModelShape& shape, std::vector<Operation>& operations) {
  const int64_t hidden = shape.hidden();
  const double rows = static_cast<double>(shape.rows());
  const Tensor tokens = device.FromIntegers(Tokens(shape.rows(), shape.vocab), {shape.samples, shape.seq});
  operations.push_back({"Embedding",
                        kUnit,
                        true,
                        {In(tokens), In(device.Random(1, {shape.vocab, hidden}), Freedom::kRows),
                         In(device.Random(2, {shape.seq + 2, hidden}), Freedom::kRows),
                         Out(device.New({shape.samples, shape.seq, hidden}), 0)},
                        [](TensorOperations& on, Stream& stream, const Operands& operands) {
                          return on.vocabulary().EnqueueEmbedding(stream, operands[0].tensor, operands[1].tensor,
                                                                  operands[2].tensor, operands[3].tensor);
                        }});
  operations.push_back({"EmbeddingGradient",
                        kUnit * (rows + 1),
                        true,
                        {In(tokens), In(device.Random(3, {shape.samples, shape.seq, hidden})),
                         Out(device.Random(1, {shape.vocab, hidden}), rows + 1, Freedom::kRows),
                         Out(device.Random(2, {shape.seq + 2, hidden}), rows + 1, Freedom::kRows)},
                        [](TensorOperations& on, Stream& stream, const Operands& operands) {
                          return on.vocabulary().EnqueueEmbeddingGradient(
                              stream, operands[0].tensor, operands[1].tensor, operands[2].tensor, operands[3].tensor);
                        }});
}

void AddCrossEntropy(TestDevice& device, const ModelShape& shape, std::vector<Operation>& operations) {
  const auto logits = [&] {
    return device.From(Mapped(RandomValues(shape.rows() * shape.vocab, 6), [](double x) { return 8 * x; }),
                       {shape.rows(), shape.vocab});
  };
  std::vector<int32_t> values = Tokens(shape.rows(), shape.vocab);
  for (size_t i = 2; i < values.size(); i += 3) values[i] = -1;
  const Tensor labels = device.FromIntegers(values, {shape.samples, shape.seq});
  // A term of a sum of exponentials has 2 units from its subtraction of numbers up to 16 in size, and 4 from exp.
  operations.push_back({"CrossEntropy",
                        64 * kUnit,
                        true,
                        {In(logits(), Freedom::kColumns), In(labels), Out(device.New({shape.rows()}), 1),
                         Out(device.New(v1::DTYPE_F64, {shape.rows()}), 1)},
                        [](TensorOperations& on, Stream& stream, const Operands& operands) {
                          return on.vocabulary().EnqueueCrossEntropy(stream, operands[0].tensor, operands[1].tensor,
                                                                     operands[2].tensor, operands[3].tensor);
                        }});
  std::vector<double> sums(static_cast<size_t>(shape.rows()), std::log(static_cast<double>(shape.vocab)) + 4);
  const double largest = std::exp(4.0) / static_cast<double>(shape.vocab);  // softmax of a logit of 8
  for (const int64_t first_column : {int64_t{0}, shape.vocab / 2}) {
    operations.push_back(
        {first_column == 0 ? "CrossEntropyGradient" : "CrossEntropyGradientOfTile",
         64 * kUnit,
         true,
         {Out(logits(), 0.3 * (largest + 1), Freedom::kColumns), In(labels), In(device.From(sums, {shape.rows()}))},
         [=](TensorOperations& on, Stream& stream, const Operands& operands) {
           return on.vocabulary().EnqueueCrossEntropyGradient(stream, operands[0].tensor, first_column,
                                                              operands[1].tensor, operands[2].tensor, 0.3);
         }});
  }
}

// ---- updates

void AddAdamW(TestDevice& device, const ModelShape& shape, std::vector<Operation>& operations) {
  const auto dims = {shape.vocab, shape.rows()};
  const Tensor squares =
      device.From(Mapped(RandomValues(shape.vocab * shape.rows(), 4), [](double x) { return x * x; }), dims);
  const AdamW update = {.learning_rate = 1e-2,
                        .beta1 = 0.9,
                        .beta2 = 0.95,
                        .epsilon = 1e-3,
                        .weight_decay = 0.1,
                        .bias_correction1 = 0.271,
                        .bias_correction2 = 0.142625,
                        .gradient_factor = 0.7};
  operations.push_back(
      {"AdamW",
       8 * kUnit,
       true,
       {Out(device.Random(1, dims), 1), In(device.Random(2, dims)), Out(device.Random(3, dims), 1), Out(squares, 1)},
       [=](TensorOperations& on, Stream& stream, const Operands& operands) {
         return on.update().EnqueueAdamW(stream, operands[0].tensor, operands[1].tensor, operands[2].tensor,
                                         operands[3].tensor, update);
       }});
}

void AddSgd(TestDevice& device, const ModelShape& shape, std::vector<Operation>& operations) {
  const auto dims = {shape.vocab, shape.rows()};
  const auto add = [&](const char* name, bool nesterov, bool first_update) {
    const Sgd update = {.learning_rate = 0.1,
                        .momentum = 0.9,
                        .weight_decay = 0.01,
                        .nesterov = nesterov,
                        .first_update = first_update,
                        .gradient_factor = 0.7};
    Operand momentum = Out(device.Random(3, dims), 2);
    momentum.optional = true;
    operations.push_back({name,
                          4 * kUnit,
                          true,
                          {Out(device.Random(1, dims), 1), In(device.Random(2, dims)), momentum},
                          [=](TensorOperations& on, Stream& stream, const Operands& operands) {
                            return on.update().EnqueueSgd(stream, operands[0].tensor, operands[1].tensor,
                                                          operands[2].tensor, update);
                          }});
  };
  add("SgdMomentum", false, false);
  add("SgdNesterov", true, false);
  add("SgdFirstUpdate", false, true);
  operations.push_back({"SgdWithoutMomentum",
                        4 * kUnit,
                        true,
                        {Out(device.Random(1, dims), 1), In(device.Random(2, dims))},
                        [](TensorOperations& on, Stream& stream, const Operands& operands) {
                          return on.update().EnqueueSgd(stream, operands[0].tensor, operands[1].tensor, Tensor(),
                                                        {.learning_rate = 0.1,
                                                         .momentum = 0,
                                                         .weight_decay = 0.01,
                                                         .nesterov = false,
                                                         .first_update = false,
                                                         .gradient_factor = 0.7});
                        }});
}

void AddReductions(TestDevice& device, const ModelShape& shape, std::vector<Operation>& operations) {
  const auto dims = {shape.vocab, shape.rows()};
  operations.push_back({"SquaredNorm",
                        0x1p-53 * static_cast<double>(shape.vocab * shape.rows()),
                        true,
                        {In(device.Random(1, dims), Freedom::kShape), Out(device.New(v1::DTYPE_F64, {1}), 0),
                         Out(device.New(v1::DTYPE_I64, {1}), 0)},
                        [](TensorOperations& on, Stream& stream, const Operands& operands) {
                          return on.update().EnqueueSquaredNorm(stream, operands[0].tensor, operands[1].tensor,
                                                                operands[2].tensor);
                        }});
  // Of integers: those are the same words on every device.
  const Tensor words = device.FromIntegers(Tokens(shape.vocab * shape.rows(), 1 << 30), dims);
  operations.push_back({"Digest",
                        0,
                        true,
                        {In(words, Freedom::kDTypeAndShape), Out(device.New(v1::DTYPE_U64, {2}), 0)},
                        [](TensorOperations& on, Stream& stream, const Operands& operands) {
                          return on.update().EnqueueDigest(stream, operands[0].tensor, operands[1].tensor);
                        }});
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const ModelShape& shape) {
  return out << shape.samples << "x" << shape.seq << " tokens, " << shape.heads << " heads of " << shape.head_size
             << ", vocabulary of " << shape.vocab;
}

std::vector<Operation> EveryOperation(TestDevice& device, const ModelShape& shape) {
  std::vector<Operation> operations;
  AddMatmuls(device, shape, operations);
  AddAttention(device, shape, operations);
  AddNorms(device, shape, operations);
  AddElementwise(device, shape, operations);
  AddDropout(device, shape, operations);
  AddFills(device, shape, operations);
  AddEmbeddings(device, shape, operations);
  AddCrossEntropy(device, shape, operations);
  AddAdamW(device, shape, operations);
  AddSgd(device, shape, operations);
  AddReductions(device, shape, operations);
  return operations;
}

}  // namespace stagecoach
