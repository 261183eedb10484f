#include "client/output/table.h"

#include <gtest/gtest.h>

namespace stagecoach {
namespace {

Table Jobs() {
  Table table({"NAME", "STATE", "MESSAGE"});
  table.AddRow({"a", {"RUNNING", Tone::kGood}, "step 3"});
  table.AddRow({"longer-name", "QUEUED", ""});
  return table;
}

TEST(TableTest, ColumnsAreAsWideAsTheyMustBe) {
  EXPECT_EQ(Jobs().Text({}),
            "NAME         STATE    MESSAGE\n"
            "a            RUNNING  step 3\n"
            "longer-name  QUEUED   -\n");
}

TEST(TableTest, WithoutHeadersTheyTakeNoPlace) {
  Table table({"A LONG HEADER", "B"});
  table.AddRow({"x", "y"});
  EXPECT_EQ(table.Text({.headers = false}), "x  y\n");
}

TEST(TableTest, ColourDoesNotMoveColumns) {
  EXPECT_EQ(Jobs().Text({.headers = false, .colour = true}),
            "a            \033[32mRUNNING\033[0m  step 3\n"
            "longer-name  QUEUED   -\n");
}

TEST(TableTest, CountsCharactersNotBytes) {
  Table table({"N", "S"});
  table.AddRow({"zürich", "1"});
  table.AddRow({"geneva", "2"});
  EXPECT_EQ(table.Text({.headers = false}), "zürich  1\ngeneva  2\n");
}

TEST(TableTest, NoCellSteersTheTerminalOrBreaksALine) {
  Table table({"N"});
  table.AddRow({"a\033[2Jb\nc"});
  EXPECT_EQ(table.Text({.headers = false}), "a?[2Jb?c\n");
}

}  // namespace
}  // namespace stagecoach
