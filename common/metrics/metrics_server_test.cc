#include "common/metrics/metrics_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

namespace stagecoach {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// The whole answer to an HTTP request at a port of this machine.
std::string Get(uint16_t port, const std::string& path) {
  const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    const std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
    send(descriptor, request.data(), request.size(), 0);
    std::array<char, 4096> part{};
    for (ssize_t n = 0; (n = recv(descriptor, part.data(), part.size(), 0)) > 0;) {
      answer.append(part.data(), static_cast<size_t>(n));
    }
  }
  close(descriptor);
  return answer;
}

class MetricsServerTest : public testing::Test {
 protected:
  const std::unique_ptr<MetricRegistry> registry_ = *MetricRegistry::Create(MetricSource::kWorker);
};

TEST_F(MetricsServerTest, ServesTheRegistryAtAPortThatItNames) {
  registry_->Gauge("stagecoach_session_up").Set(1);
  const auto server = MetricsServer::Start(*registry_, {.host = "localhost", .port = 0, .path = ""});
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE((*server)->address().IsLocal());
  EXPECT_NE((*server)->address().port, 0);
  EXPECT_THAT(Get((*server)->address().port, "/metrics"),
              AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("\nstagecoach_session_up 1\n")));
  EXPECT_THAT(Get((*server)->address().port, "/etc/passwd"), HasSubstr(" 404 Not Found"));
}

TEST_F(MetricsServerTest, APortThatIsTakenIsAnError) {
  const auto first = MetricsServer::Start(*registry_, {.host = "127.0.0.1", .port = 0, .path = ""});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(MetricsServer::Start(*registry_, (*first)->address()).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(MetricsServerTest, AUnixSocketIsRefused) {
  EXPECT_EQ(MetricsServer::Start(*registry_, {.host = "", .port = 0, .path = "/tmp/x"}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace stagecoach
