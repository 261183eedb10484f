#include "worker/device/tensor.h"

#include <gtest/gtest.h>

#include <vector>

namespace stagecoach {
namespace {

TEST(TensorTest, IsEmptyByDefault) {
  const Tensor none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.rank, 0);
}

TEST(TensorTest, CountsRowsColumnsAndBytes) {
  std::vector<float> memory(24);
  const Tensor t = Tensor::Of(memory.data(), v1::DTYPE_F32, {2, 3, 4});
  EXPECT_EQ(t.num_elements(), 24);
  EXPECT_EQ(t.bytes(), 96u);
  EXPECT_EQ(t.rows(), 6);
  EXPECT_EQ(t.columns(), 4);
  EXPECT_EQ(t.ShapeString(), "f32[2, 3, 4]");
  EXPECT_EQ(t.AsMatrix().ShapeString(), "f32[6, 4]");
}

TEST(TensorTest, VectorIsOneRow) {
  std::vector<double> memory(5);
  const Tensor t = Tensor::Of(memory.data(), v1::DTYPE_F64, {5});
  EXPECT_EQ(t.rows(), 1);
  EXPECT_EQ(t.columns(), 5);
  EXPECT_EQ(t.ShapeString(), "f64[5]");
}

TEST(TensorTest, SlicesTheFirstDimension) {
  std::vector<float> memory(24);
  const Tensor slice = Tensor::Of(memory.data(), v1::DTYPE_F32, {4, 3, 2}).Slice(1, 2);
  EXPECT_EQ(slice.as<float>(), memory.data() + 6);
  EXPECT_EQ(slice.ShapeString(), "f32[2, 3, 2]");
}

TEST(TensorTest, SlicesToZeroRows) {
  std::vector<float> memory(6);
  const Tensor t = Tensor::Of(memory.data(), v1::DTYPE_F32, {3, 2});
  EXPECT_EQ(t.Slice(3, 0).num_elements(), 0);
  EXPECT_EQ(Tensor::Of(memory.data(), v1::DTYPE_F32, {0, 2}).Slice(0, 0).as<float>(), memory.data());
}

TEST(TensorTest, KnowsSizesAndNamesOfEveryDType) {
  EXPECT_EQ(BytesOf(v1::DTYPE_F64), 8u);
  EXPECT_EQ(BytesOf(v1::DTYPE_BF16), 2u);
  EXPECT_EQ(BytesOf(v1::DTYPE_U8), 1u);
  EXPECT_STREQ(DTypeName(v1::DTYPE_I32), "i32");
  EXPECT_EQ(BytesOf(v1::DTYPE_UNSPECIFIED), 0u);
}

TEST(TensorDeathTest, SliceOutsideEndsTheProcess) {
  std::vector<float> memory(6);
  const Tensor t = Tensor::Of(memory.data(), v1::DTYPE_F32, {3, 2});
  EXPECT_DEATH(t.Slice(2, 2), "broken invariant");
}

}  // namespace
}  // namespace stagecoach
