#include "common/listen_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace stagecoach {
namespace {

using testing::HasSubstr;

TEST(ListenAddressTest, ReadsHostAndPort) {
  const auto address = ParseListenAddress("coordinator.example:7070");
  ASSERT_TRUE(address.ok());
  EXPECT_EQ(address->host, "coordinator.example");
  EXPECT_EQ(address->port, 7070);
  EXPECT_FALSE(address->is_unix());
}

TEST(ListenAddressTest, ReadsIpv6InBrackets) {
  const auto address = ParseListenAddress("[::1]:0");
  ASSERT_TRUE(address.ok());
  EXPECT_EQ(address->host, "::1");
  EXPECT_EQ(address->port, 0);
}

TEST(ListenAddressTest, ReadsTheWaysToNameAUnixSocket) {
  for (const char* text : {"unix:/run/stagecoach.sock", "unix:///run/stagecoach.sock"}) {
    const auto address = ParseListenAddress(text);
    ASSERT_TRUE(address.ok());
    EXPECT_TRUE(address->is_unix());
    EXPECT_EQ(address->path, "/run/stagecoach.sock");
  }
  EXPECT_EQ(ParseListenAddress("unix:here.sock")->path, "here.sock");
}

TEST(ListenAddressTest, PrintsWhatItReads) {
  for (const char* text : {"127.0.0.1:7070", "localhost:0", "[::1]:65535", "[fe80::1]:1", "unix:/a b/c", "unix:x"}) {
    EXPECT_EQ(ParseListenAddress(text)->ToString(), text);
  }
}

TEST(ListenAddressTest, SaysWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"", "no port"},
      {"7070", "no port"},
      {"host", "no port"},
      {":7070", "no host (0.0.0.0"},
      {"host:", "no port from"},
      {"host:-1", "no port from"},
      {"host:+1", "no port from"},
      {"host: 1", "no port from"},
      {"host:65536", "no port from"},
      {"host:99999999999999999999", "no port from"},
      {"host:http", "no port from"},
      {"::1:7070", "without brackets"},
      {"[::1:7070", "no closing bracket"},
      {"[]:7070", "no IPv6"},
      {"[127.0.0.1]:7070", "no IPv6"},
      {"[::1]", "no port from"},
      {"http://host:7070", "without brackets"},
      {"a host:7070", "no valid host name"},
      {"host/x:7070", "no valid host name"},
      {std::string("h\0st:1", 6), "no valid host name"},
      {std::string(300, 'a') + ":1", "no valid host name"},
      {"unix:", "no path"},
      {"unix:/" + std::string(107, 'a'), "108 bytes; a socket's has at most 107"},
      {std::string("unix:/a\0b", 9), "control characters"},
  };
  for (const auto& [text, why] : bad) {
    const auto address = ParseListenAddress(text);
    EXPECT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(address.status().message()), HasSubstr(why)) << text;
  }
}

TEST(ListenAddressTest, OnlyThisMachineIsLetInWithoutInsecure) {
  for (const char* text :
       {"127.0.0.1:1", "127.8.8.8:1", "localhost:1", "LOCALHOST:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "unix:/run/s"}) {
    EXPECT_TRUE(CheckListenIsAllowed(*ParseListenAddress(text), false).ok()) << text;
    EXPECT_TRUE(CheckDialIsAllowed(*ParseListenAddress(text), false).ok()) << text;
  }
  for (const char* text : {"0.0.0.0:1", "10.0.0.1:1", "[::]:1", "[fe80::1]:1", "[::ffff:10.0.0.1]:1", "coordinator:1",
                           "127.0.0.1.example:1", "127.1:1", "0:1", "localhost.example:1"}) {
    const absl::Status status = CheckListenIsAllowed(*ParseListenAddress(text), false);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--insecure")) << text;
    EXPECT_TRUE(CheckListenIsAllowed(*ParseListenAddress(text), true).ok()) << text;
    const absl::Status dial = CheckDialIsAllowed(*ParseListenAddress(text), false);
    EXPECT_EQ(dial.code(), absl::StatusCode::kFailedPrecondition) << text;
    EXPECT_THAT(std::string(dial.message()), HasSubstr("--insecure")) << text;
    EXPECT_TRUE(CheckDialIsAllowed(*ParseListenAddress(text), true).ok()) << text;
  }
}

TEST(ListenAddressTest, PortsForReadersFollowTheSameRule) {
  EXPECT_EQ(*ParseReadersAddress("", false, "metrics"), std::nullopt);
  EXPECT_EQ((*ParseReadersAddress("127.0.0.1:0", false, "metrics"))->host, "127.0.0.1");
  EXPECT_EQ((*ParseReadersAddress("0.0.0.0:9470", true, "metrics"))->port, 9470);
  const absl::Status refused = ParseReadersAddress("0.0.0.0:9470", false, "metrics").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--metrics-listen: refusing to serve metrics at 0.0.0.0:9470"));
  const absl::Status bad = ParseReadersAddress("9470", false, "health").status();
  EXPECT_EQ(bad.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(bad.message()), HasSubstr("--health-listen: "));
}

}  // namespace
}  // namespace stagecoach
