#include "formats/tensor_digest.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace stagecoach {
namespace {

std::vector<std::byte> Bytes(size_t n) {
  std::vector<std::byte> bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
  return bytes;
}

TEST(TensorDigestTest, HasKnownValues) {
  EXPECT_EQ(DigestBytes({}).Hex(), "00000000000000000000000000000000");
  EXPECT_EQ(DigestBytes(Bytes(4)).Hex(), "aebea4b822c93ed3cc5c0e1ce20582ee");
  EXPECT_EQ(DigestBytes(Bytes(1003)).Hex(), "218b9ee74f32d5d34d3b94910d2a9b91");
}

TEST(TensorDigestTest, SlicesAddUp) {
  const std::vector<std::byte> bytes = Bytes(1003);
  const std::span<const std::byte> all(bytes);
  for (const size_t cut : {size_t{0}, size_t{4}, size_t{500}, size_t{1000}}) {
    EXPECT_EQ(DigestBytes(all.subspan(cut), cut / 4) + DigestBytes(all.first(cut)), DigestBytes(all)) << cut;
  }
}

TEST(TensorDigestTest, TailIsPaddedWithZeroBytes) {
  for (const size_t tail : {size_t{1}, size_t{2}, size_t{3}}) {
    std::vector<std::byte> bytes = Bytes(8 + tail);
    const TensorDigest digest = DigestBytes(bytes);
    bytes.resize(12);
    EXPECT_EQ(DigestBytes(bytes), digest) << tail;
  }
}

TEST(TensorDigestTest, UnalignedBytesGiveTheSameDigest) {
  const std::vector<std::byte> bytes = Bytes(101);
  std::vector<std::byte> moved(102);
  std::copy(bytes.begin(), bytes.end(), moved.begin() + 1);
  EXPECT_EQ(DigestBytes(std::span(moved).subspan(1)), DigestBytes(bytes));
}

TEST(TensorDigestTest, EveryBitAndEveryPositionCounts) {
  std::vector<std::byte> bytes = Bytes(64);
  const TensorDigest digest = DigestBytes(bytes);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    const TensorDigest flipped = DigestBytes(bytes);
    EXPECT_NE(flipped.words[0], digest.words[0]) << bit;
    EXPECT_NE(flipped.words[1], digest.words[1]) << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  }
  std::rotate(bytes.begin(), bytes.begin() + 4, bytes.end());
  EXPECT_NE(DigestBytes(bytes), digest);
}

const std::array<uint64_t, 2> kShape = {2, 3};
const TensorDigest kDigest = {{1, 2}};

TEST(ModelDigestTest, HasKnownValues) {
  ModelDigest digest;
  EXPECT_EQ(digest.Hex(), "2c0a8a99dc147d5445c3b49d035665b2");
  EXPECT_TRUE(digest.Add("b", v1::DTYPE_F32, kShape, kDigest));
  EXPECT_TRUE(digest.Add("a", v1::DTYPE_F64, {}, {{3, 4}}));
  EXPECT_EQ(digest.Hex(), "e204432469704da60f13b830928aa1da");
  digest.AddUpdateCount(20);
  EXPECT_EQ(digest.Hex(), "ee9b5de3e11a6801a1705c4a67cc3583");
}

TEST(ModelDigestTest, OrderDoesNotMatter) {
  ModelDigest forward, backward;
  forward.Add("a", v1::DTYPE_F32, kShape, kDigest);
  forward.Add("b", v1::DTYPE_F32, {}, {});
  forward.AddUpdateCount(3);
  backward.AddUpdateCount(3);
  backward.Add("b", v1::DTYPE_F32, {}, {});
  backward.Add("a", v1::DTYPE_F32, kShape, kDigest);
  EXPECT_EQ(forward.Hex(), backward.Hex());
  backward.AddUpdateCount(3);
  EXPECT_EQ(forward.Hex(), backward.Hex());
}

TEST(ModelDigestTest, RefusesANameTwice) {
  ModelDigest digest;
  EXPECT_TRUE(digest.Add("a", v1::DTYPE_F32, kShape, kDigest));
  EXPECT_FALSE(digest.Add("a", v1::DTYPE_F32, kShape, kDigest));
}

std::string HexOf(const std::string& name, v1::DType dtype, std::vector<uint64_t> shape, TensorDigest tensor) {
  ModelDigest digest;
  digest.Add(name, dtype, shape, tensor);
  return digest.Hex();
}

TEST(ModelDigestTest, EveryPartCounts) {
  const std::string hex = HexOf("a", v1::DTYPE_F32, {2, 3}, kDigest);
  EXPECT_NE(HexOf("b", v1::DTYPE_F32, {2, 3}, kDigest), hex);
  EXPECT_NE(HexOf("a", v1::DTYPE_I32, {2, 3}, kDigest), hex);
  EXPECT_NE(HexOf("a", v1::DTYPE_F32, {3, 2}, kDigest), hex);
  EXPECT_NE(HexOf("a", v1::DTYPE_F32, {2, 3, 1}, kDigest), hex);
  EXPECT_NE(HexOf("a", v1::DTYPE_F32, {2, 3}, {{1, 3}}), hex);
  EXPECT_NE(HexOf("a", v1::DTYPE_F32, {2, 3}, {{2, 2}}), hex);
}

}  // namespace
}  // namespace stagecoach
