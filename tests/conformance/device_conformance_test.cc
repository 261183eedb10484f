// What every operation of every device promises: the float64 result within a bound, the same bits for the same call,
// refusal of a cancelled stream and of operands that do not fit.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <tuple>
#include <utility>

#include "hwy/highway.h"
#include "tests/conformance/device_operations.h"
#include "tests/conformance/test_device.h"

namespace stagecoach {
namespace {

// No rows; one of everything; odd sizes; sizes around vectors of 4, 8 and 16; several blocks of every operation.
const ModelShape kShapes[] = {{0, 3, 2, 4, 5},     {1, 1, 1, 1, 1},      {1, 1, 1, 3, 7},     {2, 3, 1, 5, 17},
                              {1, 5, 3, 5, 33},    {2, 7, 2, 8, 16},     {3, 5, 4, 4, 15},    {2, 9, 1, 17, 65},
                              {2, 33, 2, 31, 130}, {1, 65, 3, 32, 1100}, {2, 130, 4, 40, 200}};

std::string CaseName(const testing::TestParamInfo<std::tuple<DeviceUnderTest, ModelShape>>& info) {
  const auto& [device, shape] = info.param;
  return device.name + "On" + std::to_string(shape.samples) + "x" + std::to_string(shape.seq) + "x" +
         std::to_string(shape.heads) + "x" + std::to_string(shape.head_size) + "x" + std::to_string(shape.vocab);
}

class DeviceConformanceTest : public testing::TestWithParam<std::tuple<DeviceUnderTest, ModelShape>> {
 protected:
  const DeviceUnderTest& device_under_test() const { return std::get<0>(GetParam()); }
  const ModelShape& shape() const { return std::get<1>(GetParam()); }
};

std::vector<std::vector<char>> OutputBytes(const Operation& operation) {
  std::vector<std::vector<char>> outputs;
  for (const Operand& operand : operation.operands) {
    if (operand.output) outputs.push_back(BytesIn(operand.tensor));
  }
  return outputs;
}

void ExpectWithinTolerance(const Operation& actual, const Operation& expected) {
  for (size_t o = 0; o < actual.operands.size(); ++o) {
    const Operand& operand = actual.operands[o];
    if (!operand.output) continue;
    const std::vector<double> is = ValuesOf(operand.tensor);
    const std::vector<double> should_be = ValuesOf(expected.operands[o].tensor);
    for (size_t i = 0; i < is.size(); ++i) {
      const double bound = actual.tolerance * (std::abs(should_be[i]) + operand.reach);
      ASSERT_LE(std::abs(is[i] - should_be[i]), bound)
          << actual.name << ": element " << i << " of operand " << o << " " << operand.tensor.ShapeString() << " is "
          << is[i] << ", should be " << should_be[i];
    }
  }
}

TEST_P(DeviceConformanceTest, ResultsAreTheReferencesWithinTheirBounds) {
  TestDevice device(device_under_test());
  TestDevice reference(ReferenceUnderTest());
  const std::vector<Operation> operations = EveryOperation(device, shape());
  const std::vector<Operation> oracles = EveryOperation(reference, shape());
  for (size_t i = 0; i < operations.size(); ++i) {
    ASSERT_EQ(operations[i].Enqueue(device), absl::OkStatus()) << operations[i].name;
    ASSERT_EQ(oracles[i].Enqueue(reference), absl::OkStatus()) << oracles[i].name;
    ExpectWithinTolerance(operations[i], oracles[i]);
  }
}

TEST_P(DeviceConformanceTest, EqualCallsGiveEqualBits) {
  TestDevice device(device_under_test());
  const std::vector<Operation> first = EveryOperation(device, shape());
  const std::vector<Operation> second = EveryOperation(device, shape());
  for (size_t i = 0; i < first.size(); ++i) {
    ASSERT_EQ(first[i].Enqueue(device), absl::OkStatus()) << first[i].name;
    ASSERT_EQ(second[i].Enqueue(device), absl::OkStatus()) << second[i].name;
    EXPECT_EQ(OutputBytes(first[i]), OutputBytes(second[i])) << first[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceConformanceTest,
                         testing::Combine(testing::ValuesIn(DevicesUnderTest()), testing::ValuesIn(kShapes)), CaseName);

class DeviceRefusalTest : public testing::TestWithParam<DeviceUnderTest> {};

const ModelShape kSmallShape = {2, 3, 2, 5, 17};

TEST_P(DeviceRefusalTest, CancelledStreamAbortsAndNothingIsWritten) {
  TestDevice device(GetParam());
  device.stream().Cancel();
  for (const Operation& operation : EveryOperation(device, kSmallShape)) {
    const std::vector<std::vector<char>> before = OutputBytes(operation);
    EXPECT_EQ(operation.Enqueue(device).code(), absl::StatusCode::kAborted) << operation.name;
    EXPECT_EQ(OutputBytes(operation), before) << operation.name;
  }
}

struct WrongTensor {
  const char* what;
  Tensor tensor;
};

// Ways in which an operand does not fit.
std::vector<WrongTensor> WrongTensorsFor(const Operand& operand) {
  std::vector<WrongTensor> wrong;
  const bool any_shape = operand.freedom == Freedom::kShape || operand.freedom == Freedom::kDTypeAndShape;
  const Tensor& right = operand.tensor;
  if (!any_shape && operand.freedom != Freedom::kRows) {
    wrong.push_back({"one row more", right});
    ++wrong.back().tensor.dims[0];
  }
  if (!any_shape && operand.freedom != Freedom::kColumns) {
    wrong.push_back({"one column more", right});
    ++wrong.back().tensor.dims[static_cast<size_t>(right.rank - 1)];
  }
  if (operand.freedom != Freedom::kDTypeAndShape) {
    wrong.push_back({"another dtype", right});
    wrong.back().tensor.dtype = v1::DTYPE_F16;
  }
  wrong.push_back({"a negative size", right});
  wrong.back().tensor.dims[0] = -1;
  if (!operand.optional) {
    wrong.push_back({"no memory", right});
    wrong.back().tensor.data = nullptr;
    wrong.push_back({"no tensor", Tensor()});
  }
  return wrong;
}

TEST_P(DeviceRefusalTest, OperandThatDoesNotFitIsInvalidAndNothingIsWritten) {
  TestDevice device(GetParam());
  for (const Operation& operation : EveryOperation(device, kSmallShape)) {
    const std::vector<std::vector<char>> before = OutputBytes(operation);
    for (size_t i = 0; i < operation.operands.size(); ++i) {
      for (const WrongTensor& wrong : WrongTensorsFor(operation.operands[i])) {
        Operation changed = operation;
        changed.operands[i].tensor = wrong.tensor;
        const absl::Status status = changed.Enqueue(device);
        EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument)
            << operation.name << ", operand " << i << " with " << wrong.what;
        EXPECT_EQ(OutputBytes(operation), before) << operation.name << ", operand " << i << " with " << wrong.what;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceRefusalTest, testing::ValuesIn(DevicesUnderTest()),
                         [](const auto& parameter) { return parameter.param.name; });

TEST(DeviceThreadsTest, NumberOfThreadsDoesNotChangeTheBits) {
  for (const ModelShape& shape : kShapes) {
    TestDevice one(CpuUnderTest(1));
    TestDevice two(CpuUnderTest(2));
    const std::vector<Operation> on_one = EveryOperation(one, shape);
    const std::vector<Operation> on_two = EveryOperation(two, shape);
    for (size_t i = 0; i < on_one.size(); ++i) {
      if (!on_one[i].same_bits_on_any_threads) continue;
      ASSERT_EQ(on_one[i].Enqueue(one), absl::OkStatus());
      ASSERT_EQ(on_two[i].Enqueue(two), absl::OkStatus());
      EXPECT_EQ(OutputBytes(on_one[i]), OutputBytes(on_two[i])) << on_one[i].name << " at " << shape;
    }
  }
}

// Kernels are compiled for several instruction sets: this machine can run those below its own too.
class DeviceInstructionSetTest : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    if ((hwy::SupportedTargets() & GetParam()) == 0)
      GTEST_SKIP() << "this machine lacks " << hwy::TargetName(GetParam());
    hwy::SetSupportedTargetsForTest(GetParam());
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  void TearDown() override {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

TEST_P(DeviceInstructionSetTest, ResultsAreTheReferencesWithinTheirBounds) {
  for (const ModelShape& shape : {ModelShape{2, 3, 1, 5, 17}, ModelShape{2, 33, 2, 31, 130}}) {
    TestDevice device(CpuUnderTest(1));
    TestDevice reference(ReferenceUnderTest());
    const std::vector<Operation> operations = EveryOperation(device, shape);
    const std::vector<Operation> oracles = EveryOperation(reference, shape);
    for (size_t i = 0; i < operations.size(); ++i) {
      ASSERT_EQ(operations[i].Enqueue(device), absl::OkStatus()) << operations[i].name;
      ASSERT_EQ(oracles[i].Enqueue(reference), absl::OkStatus()) << oracles[i].name;
      ExpectWithinTolerance(operations[i], oracles[i]);
    }
  }
}

TEST_P(DeviceInstructionSetTest, UpdatesHaveTheBitsOfEveryOtherSet) {
  TestDevice device(CpuUnderTest(1));
  const std::vector<Operation> on_this_set = EveryOperation(device, kSmallShape);
  for (const Operation& operation : on_this_set) ASSERT_EQ(operation.Enqueue(device), absl::OkStatus());
  TearDown();
  const std::vector<Operation> on_the_best = EveryOperation(device, kSmallShape);
  for (size_t i = 0; i < on_the_best.size(); ++i) {
    const std::string& name = on_the_best[i].name;
    if (name != "AdamW" && name != "Digest" && name.rfind("Sgd", 0) != 0 && name.rfind("Dropout", 0) != 0) continue;
    ASSERT_EQ(on_the_best[i].Enqueue(device), absl::OkStatus());
    EXPECT_EQ(OutputBytes(on_the_best[i]), OutputBytes(on_this_set[i])) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, DeviceInstructionSetTest, testing::Values(HWY_SSE4, HWY_AVX2, HWY_AVX3),
                         [](const auto& parameter) { return std::string(hwy::TargetName(parameter.param)); });

}  // namespace
}  // namespace stagecoach
