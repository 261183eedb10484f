#include "common/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "nlohmann/json.hpp"

namespace stagecoach {
namespace {

using testing::HasSubstr;

std::string LoggedBy(const LogOptions& options, const std::string& message) {
  testing::internal::CaptureStderr();
  EXPECT_TRUE(StartLog("coordinator", options).ok());
  spdlog::debug("{}", message);
  spdlog::warn("{}", message);
  std::string logged = testing::internal::GetCapturedStderr();
  StartLog("test");
  return logged;
}

TEST(LogTest, TextSaysWhoAndHowSevere) {
  const std::string logged = LoggedBy({}, "out of tune");
  EXPECT_THAT(logged, HasSubstr("[coordinator] [warning] out of tune\n"));
  EXPECT_EQ(std::count(logged.begin(), logged.end(), '\n'), 1);  // debug is below the level
}

TEST(LogTest, JsonIsOneObjectALineWhateverTheMessage) {
  const std::string message("a \"quote\"\nand \xff", 15);
  const std::string logged = LoggedBy({.level = "warn", .format = "json"}, message);
  ASSERT_EQ(std::count(logged.begin(), logged.end(), '\n'), 1);
  const auto object = nlohmann::json::parse(logged);
  EXPECT_EQ(object["level"], "warning");
  EXPECT_EQ(object["component"], "coordinator");
  EXPECT_EQ(object["message"], "a \"quote\"\nand \xef\xbf\xbd");
  EXPECT_THAT(object["time"].get<std::string>(), testing::MatchesRegex("....-..-..T..:..:..\\.......Z"));
}

TEST(LogTest, TheLevelLetsMoreThrough) {
  const std::string logged = LoggedBy({.level = "debug", .format = "text"}, "x");
  EXPECT_EQ(std::count(logged.begin(), logged.end(), '\n'), 2);
}

TEST(LogTest, RefusesUnknownLevelsAndFormats) {
  EXPECT_EQ(StartLog("x", {.level = "loud", .format = "text"}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(StartLog("x", {.level = "info", .format = "xml"}).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace stagecoach
