#include "common/valid_utf8.h"

#include <gtest/gtest.h>

namespace stagecoach {
namespace {

TEST(ValidUtf8Test, KeepsWhatIsValid) {
  for (const char* text : {"", "plain", "\xc3\xa4\xc3\xb6", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xed\x9f\xbf",
                           "\xee\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(ValidUtf8(text, 100), text);
  }
}

TEST(ValidUtf8Test, ReplacesEachByteThatIsNot) {
  EXPECT_EQ(ValidUtf8("a\xff\xfe z", 100), "a?? z");
  EXPECT_EQ(ValidUtf8("\x80", 100), "?");
  EXPECT_EQ(ValidUtf8("\xc0\xaf", 100), "??");            // longer than needed
  EXPECT_EQ(ValidUtf8("\xe0\x9f\xbf", 100), "???");       // longer than needed
  EXPECT_EQ(ValidUtf8("\xed\xa0\x80", 100), "???");       // a surrogate
  EXPECT_EQ(ValidUtf8("\xf4\x90\x80\x80", 100), "????");  // past the last one
  EXPECT_EQ(ValidUtf8("\xe2\x82", 100), "??");            // cut off
  EXPECT_EQ(ValidUtf8("\xe2\x41\x42", 100), "?AB");
}

TEST(ValidUtf8Test, CutsBetweenCharacters) {
  EXPECT_EQ(ValidUtf8("abcdef", 4), "abcd");
  EXPECT_EQ(ValidUtf8("ab\xe2\x82\xac", 4), "ab");
  EXPECT_EQ(ValidUtf8("ab\xe2\x82\xac", 5), "ab\xe2\x82\xac");
  EXPECT_EQ(ValidUtf8("x", 0), "");
}

}  // namespace
}  // namespace stagecoach
