#include "client/output/times.h"

#include <gtest/gtest.h>

namespace stagecoach {
namespace {

TEST(TimesTest, DurationsHaveTwoUnitsAtMost) {
  EXPECT_EQ(ShortDuration(absl::Seconds(-5)), "0s");
  EXPECT_EQ(ShortDuration(absl::Milliseconds(59'999)), "59s");
  EXPECT_EQ(ShortDuration(absl::Seconds(125)), "2m5s");
  EXPECT_EQ(ShortDuration(absl::Minutes(59)), "59m");
  EXPECT_EQ(ShortDuration(absl::Minutes(192)), "3h12m");
  EXPECT_EQ(ShortDuration(absl::Hours(49)), "2d");
}

TEST(TimesTest, ProgramsGetUtcWithMilliseconds) {
  google::protobuf::Timestamp time;
  time.set_seconds(1'700'000'000);
  time.set_nanos(123'000'000);
  EXPECT_EQ(Rfc3339(FromProto(time)), "2023-11-14T22:13:20.123Z");
}

TEST(TimesTest, DurationsAreReadWithUnits) {
  EXPECT_EQ(*ParseDuration("30s"), absl::Seconds(30));
  EXPECT_EQ(*ParseDuration("1h30m"), absl::Minutes(90));
  EXPECT_EQ(*ParseDuration("250ms"), absl::Milliseconds(250));
  for (const char* text : {"", "30", "s", "-1s", "0s", "inf", "1 s", "1d", "soon"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseDuration(text).status())) << text;
  }
}

}  // namespace
}  // namespace stagecoach
