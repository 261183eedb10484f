#include "worker/checkpoint/shard_digester.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

namespace stagecoach {
namespace {

// Larger than what is read at once, and no multiple of it.
std::vector<std::byte> Bytes(size_t number, uint32_t seed) {
  std::vector<std::byte> bytes(number);
  for (size_t i = 0; i < number; ++i) bytes[i] = static_cast<std::byte>((i * 2654435761u + seed) >> 13);
  return bytes;
}

TEST(ShardDigesterTest, ItsDigestsAreThoseOfTheWhole) {
  const std::vector<std::byte> first = Bytes(3'000'004, 1), second = Bytes(12, 2), third = Bytes(1 << 20, 3);
  FileDigest header;
  header.Add("header", 6);
  ShardDigester digester(std::move(header), {first, second, {}, third});
  const ShardDigester::Digests digests = digester.Finish();
  EXPECT_THAT(digests.tensors,
              testing::ElementsAre(DigestBytes(first), DigestBytes(second), TensorDigest(), DigestBytes(third)));
  FileDigest file;
  file.Add("header", 6);
  for (const auto* bytes : {&first, &second, &third}) file.Add(bytes->data(), bytes->size());
  EXPECT_EQ(digests.file, file.Hex());
}

TEST(ShardDigesterTest, OneThatNobodyWaitsForEnds) {
  const std::vector<std::byte> bytes = Bytes(1 << 20, 1);
  // As much as takes minutes, without the memory for it.
  std::optional<ShardDigester> digester;
  digester.emplace(FileDigest(), std::vector<std::span<const std::byte>>(1'000'000, bytes));
  digester.reset();
}

}  // namespace
}  // namespace stagecoach
