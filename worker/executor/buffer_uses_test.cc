#include "worker/executor/buffer_uses.h"

#include <gtest/gtest.h>

namespace stagecoach {
namespace {

TEST(BufferUsesTest, NothingIsUsedAtFirst) { EXPECT_EQ(BufferUses().LastUse(0, 100), std::nullopt); }

TEST(BufferUsesTest, TheNewestUseOfAnyByteCounts) {
  BufferUses uses;
  uses.Use(64, 64, 3);
  uses.Use(192, 64, 5);
  EXPECT_EQ(uses.LastUse(0, 64), std::nullopt);
  EXPECT_EQ(uses.LastUse(0, 65), 3u);
  EXPECT_EQ(uses.LastUse(64, 64), 3u);
  EXPECT_EQ(uses.LastUse(127, 1), 3u);
  EXPECT_EQ(uses.LastUse(128, 64), std::nullopt);
  EXPECT_EQ(uses.LastUse(0, 1000), 5u);
}

TEST(BufferUsesTest, ALaterUseTakesTheMiddleOfAnEarlierOne) {
  BufferUses uses;
  uses.Use(0, 300, 1);
  uses.Use(100, 100, 2);
  EXPECT_EQ(uses.LastUse(0, 100), 1u);
  EXPECT_EQ(uses.LastUse(0, 101), 2u);
  EXPECT_EQ(uses.LastUse(200, 100), 1u);
  uses.Use(50, 200, 7);
  EXPECT_EQ(uses.LastUse(40, 11), 7u);
  EXPECT_EQ(uses.LastUse(249, 1), 7u);
  EXPECT_EQ(uses.LastUse(250, 50), 1u);
}

TEST(BufferUsesTest, EmptyBuffersUseNothing) {
  BufferUses uses;
  uses.Use(10, 0, 4);
  EXPECT_EQ(uses.LastUse(0, 100), std::nullopt);
  uses.Use(0, 100, 1);
  EXPECT_EQ(uses.LastUse(10, 0), 1u);
}

}  // namespace
}  // namespace stagecoach
