#include "common/action_parser.h"

#include <string>

#include "common/action_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using ::testing::HasSubstr;

TEST(ActionParserTest, ReadsBackWhatActionTextWrites) {
  const google::protobuf::EnumDescriptor& kinds = *v1::ActionKind_descriptor();
  for (int i = 1; i < kinds.value_count(); ++i) {
    for (const uint32_t number : {0u, 7u, 4095u, 4294967295u}) {
      v1::Action action;
      action.set_kind(static_cast<v1::ActionKind>(kinds.value(i)->number()));
      action.set_stage(number);
      action.set_micro_batch(number);
      const std::string text = ActionText(action);
      const absl::StatusOr<v1::Action> again = ParseActionText(text);
      ASSERT_TRUE(again.ok()) << text << ": " << again.status();
      EXPECT_EQ(again->kind(), action.kind()) << text;
      EXPECT_EQ(ActionText(*again), text);
    }
  }
}

TEST(ActionParserTest, SaysWhatIsWrong) {
  const auto refusal = [](absl::string_view text) { return std::string(ParseActionText(text).status().message()); };
  for (const char* text : {"", "F0", "2", "2F0x", "2 F0", "-1F0", "2f0", "+2F0", "2F-1", "2F0.5"}) {
    EXPECT_THAT(refusal(text), HasSubstr("2F0")) << text;
  }
  EXPECT_THAT(refusal("2Q0"), HasSubstr("no action of kind Q"));
  EXPECT_THAT(refusal("2F"), HasSubstr("F needs a micro-batch"));
  EXPECT_THAT(refusal("2NORM0"), HasSubstr("NORM has no micro-batch"));
  EXPECT_THAT(refusal("4294967296F0"), HasSubstr("stage is far too large"));
  EXPECT_THAT(refusal("2F99999999999"), HasSubstr("micro-batch is far too large"));
}

}  // namespace
}  // namespace stagecoach
