#include "coordinator/program/arena_cells.h"

#include "gtest/gtest.h"

namespace stagecoach {
namespace {

TEST(ArenaCellsTest, CellsOfDifferentTimesShareBytesAndOthersDoNot) {
  ArenaCells cells;
  const size_t early = cells.Add(128);
  const size_t late = cells.Add(128);
  const size_t always = cells.Add(64);
  cells.Use(early, 0, 3);
  cells.Use(late, 4, 9);
  cells.Use(always, 0, 9);
  EXPECT_EQ(*cells.Place(), 192u);
  EXPECT_EQ(cells.offset(early), cells.offset(late));
  EXPECT_EQ(cells.offset(always), 128u);
}

TEST(ArenaCellsTest, TheInstructionThatBothUseKeepsThemApart) {
  ArenaCells cells;
  cells.Use(cells.Add(64), 0, 4);
  cells.Use(cells.Add(64), 4, 5);
  EXPECT_EQ(*cells.Place(), 128u);
}

TEST(ArenaCellsTest, GapsInTheUsesOfOneAreUsedByAnother) {
  ArenaCells cells;
  const size_t pulsed = cells.Add(64);
  for (const size_t start : {0u, 10u, 20u}) cells.Use(pulsed, start, start + 2);
  const size_t between = cells.Add(64);
  for (const size_t start : {3u, 13u, 23u}) cells.Use(between, start, start + 6);
  EXPECT_EQ(*cells.Place(), 64u);
}

TEST(ArenaCellsTest, SmallCellsFillTheBytesOfALargeOne) {
  ArenaCells cells;
  const size_t large = cells.Add(1000);  // rounded up to 1024
  cells.Use(large, 10, 11);
  for (int i = 0; i < 16; ++i) cells.Use(cells.Add(64), 0, 9);
  EXPECT_EQ(*cells.Place(), 1024u);
}

TEST(ArenaCellsTest, RefusesSizesThatNoMachineHas) {
  ArenaCells cells;
  cells.Add(UINT64_MAX);
  EXPECT_EQ(cells.Place().status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(CellPoolTest, TakesTheSmallestCellThatIsLargeEnoughAndGrowsTheLargestOtherwise) {
  ArenaCells cells;
  CellPool pool(cells);
  const size_t small = pool.Acquire(64);
  const size_t large = pool.Acquire(256);
  EXPECT_NE(small, large);
  pool.Release(small);
  pool.Release(large);
  EXPECT_EQ(pool.Acquire(60), small);
  EXPECT_EQ(pool.Acquire(300), large);
  EXPECT_EQ(cells.bytes(large), 320u);
  EXPECT_EQ(cells.bytes(small), 64u);
}

}  // namespace
}  // namespace stagecoach
