#include "coordinator/spec/spec_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/spec/spec_test_cases.h"

namespace stagecoach {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::string Repeat(const std::string& text, size_t count) {
  std::string result;
  for (size_t i = 0; i < count; ++i) result += text;
  return result;
}

TEST(SpecNodeTest, KnowsWhereThingsStand) {
  SpecNode root;
  std::vector<SpecError> errors;
  ASSERT_TRUE(ParseSpecTree("a: 1\nb:\n  - x\n  - {c: 'y'}\n", root, errors));
  EXPECT_EQ(root.Find("a")->line, 1);
  EXPECT_EQ(root.Find("a")->column, 4);
  EXPECT_FALSE(root.Find("a")->quoted);
  const SpecNode& c = *root.Find("b")->children[1].Find("c");
  EXPECT_EQ(c.key_line, 4);
  EXPECT_EQ(c.key_column, 6);
  EXPECT_EQ(c.column, 9);
  EXPECT_TRUE(c.quoted);
  EXPECT_EQ(root.Find("z"), nullptr);
  EXPECT_EQ(root.Find("a")->Find("z"), nullptr);
}

TEST(SpecNodeTest, RefusesWhatIsNoDocument) {
  EXPECT_THAT(ErrorLinesOf(""), ElementsAre("f: the specification is empty"));
  EXPECT_THAT(ErrorLinesOf("# nothing\n\n"), ElementsAre("f: the specification is empty"));
  EXPECT_THAT(ErrorLinesOf("---\n"), ElementsAre(HasSubstr("the specification is empty")));
  EXPECT_THAT(ErrorLinesOf("--- a\n--- b\n"), ElementsAre(HasSubstr("f:2:1: a second document starts here")));
  EXPECT_THAT(ErrorLinesOf("- 1\n"),
              ElementsAre(HasSubstr("a specification is a mapping of keys to values, and this is a list")));
  EXPECT_THAT(ErrorLinesOf("hello"), ElementsAre(HasSubstr("this is a single value")));
  EXPECT_THAT(ErrorLinesOf("a: [1, 2\nb: 3"), ElementsAre(HasSubstr("not valid YAML")));
  EXPECT_THAT(ErrorLinesOf("a: 'x"), ElementsAre(HasSubstr("not valid YAML")));
  EXPECT_THAT(ErrorLinesOf("a: !!int 5"), ElementsAre(HasSubstr("f:1:4: YAML tags are not accepted")));
  EXPECT_THAT(ErrorLinesOf("? {a: b}\n: c"),
              ElementsAre(HasSubstr("f:1:3: a key must be text, and this is a mapping")));
  EXPECT_THAT(ErrorLinesOf("a: *x"), ElementsAre(HasSubstr("f:1:4: not valid YAML")));
}

TEST(SpecNodeTest, RefusesWhatIsNoText) {
  EXPECT_THAT(ErrorLinesOf("a: b\nc: \xff"), ElementsAre("f:2:4: not UTF-8 (byte 0xff)"));
  EXPECT_THAT(ErrorLinesOf("a: \xc0\xaf"), ElementsAre("f:1:4: not UTF-8 (byte 0xc0)"));
  EXPECT_THAT(ErrorLinesOf("a: \xed\xa0\x80"), ElementsAre("f:1:4: not UTF-8 (byte 0xed)"));
  EXPECT_THAT(ErrorLinesOf("a: \xf4\x90\x80\x80"), ElementsAre("f:1:4: not UTF-8 (byte 0xf4)"));
  EXPECT_THAT(ErrorLinesOf("a: \xe2\x82"), ElementsAre("f:1:4: not UTF-8 (byte 0xe2)"));
  EXPECT_THAT(ErrorLinesOf(std::string("a: b\0c", 6)), ElementsAre("f:1:5: a control character (U+0000)"));
  EXPECT_THAT(ErrorLinesOf("a: \x1b[2J"), ElementsAre("f:1:4: a control character (U+001b)"));
  EXPECT_THAT(ErrorLinesOf("a: \"x\\0y\""), ElementsAre(HasSubstr("a value with a control character (U+0000)")));
  EXPECT_THAT(ErrorLinesOf("a: \"\\ud800\""), ElementsAre(HasSubstr("f:1:11: not valid YAML")));
  EXPECT_THAT(
      ErrorsOf(GoodSpecWith("version: 1\n", "version: 1\nlabels: {team: \"\xc3\xa4\xe2\x82\xac\xf0\x9f\x9a\x82\"}\n")),
      SizeIs(0));
}

TEST(SpecNodeTest, RefusesTenMebibytes) {
  EXPECT_THAT(ErrorLinesOf(std::string(10 << 20, 'a')),
              ElementsAre("f: the specification has 10485760 bytes; at most 1048576"));
}

TEST(SpecNodeTest, RefusesDeepNestingOfEveryStyle) {
  const std::string message = "nested deeper than 16 levels";
  for (const size_t depth : {17u, 400u, 600u, 20'000u}) {
    for (const std::string open : {"[", "{a: ", "[{a: ", "- ", "? "}) {
      const std::vector<std::string> lines = ErrorLinesOf(Repeat(open, depth));
      ASSERT_THAT(lines, SizeIs(1)) << open << " x " << depth;
      EXPECT_FALSE(lines[0].empty());
    }
    EXPECT_THAT(ErrorLinesOf(Repeat("[", depth) + Repeat("]", depth)), ElementsAre("f:1:17: " + message)) << depth;
    EXPECT_THAT(ErrorLinesOf(Repeat("- ", depth) + "x"), ElementsAre("f:1:33: " + message)) << depth;
  }
  std::string block;
  for (size_t i = 0; i < 100; ++i) absl::StrAppend(&block, std::string(i, ' '), "a:\n");
  EXPECT_THAT(ErrorLinesOf(block), ElementsAre("f:17:17: " + message));
  EXPECT_THAT(ErrorLinesOf("a: " + Repeat("[", 15) + Repeat("]", 15)),
              testing::Not(testing::Contains(HasSubstr(message))));
}

TEST(SpecNodeTest, RefusesAliasBombs) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    absl::StrAppend(&bomb, "a", i, ": &a", i, " [", Repeat(absl::StrCat("*a", i - 1, ", "), 10), "]\n");
  }
  EXPECT_THAT(ErrorLinesOf(bomb), ElementsAre(HasSubstr("more than 100000 values, aliases expanded")));
  EXPECT_THAT(ErrorLinesOf("a: &a x\nb: [" + Repeat("*a, ", 101) + "]"),
              ElementsAre(HasSubstr("more than 100 aliases")));
  EXPECT_THAT(ErrorLinesOf("a: &a [*a]"), ElementsAre("f:1:8: an alias inside the value that it stands for"));

  std::string deep = "a0: &a0 [x]\n";
  for (int i = 1; i < 20; ++i) absl::StrAppend(&deep, "a", i, ": &a", i, " [*a", i - 1, "]\n");
  EXPECT_THAT(ErrorLinesOf(deep), ElementsAre(HasSubstr("nested deeper than 16 levels")));
}

TEST(SpecNodeTest, RefusesTooManyValues) {
  EXPECT_THAT(ErrorLinesOf("a: [" + Repeat("1,", 200'000) + "]"), ElementsAre(HasSubstr("more than 100000 values")));
}

}  // namespace
}  // namespace stagecoach
