#include "common/health/health_server.h"

#include <grpcpp/support/status_code_enum.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "common/check.h"
#include "tests/testing/health/health_probe.h"

namespace stagecoach {
namespace {

class HealthServerTest : public testing::Test {
 protected:
  void Start(absl::Duration patience = absl::Hours(1)) {
    auto server = HealthServer::Start({.host = "127.0.0.1", .port = 0, .path = ""},
                                      {.loop = beat_,
                                       .is_ready = [this] { return is_ready_.load(); },
                                       .patience = patience,
                                       .interval = absl::Milliseconds(1)});
    STAGECOACH_CHECK(server.ok());
    server_ = *std::move(server);
  }
  std::string Ask(const std::string& service) const { return AskHealth(server_->address().ToString(), service); }
  bool Becomes(const std::string& service, const std::string& answer) const {
    return HealthBecomes(server_->address().ToString(), service, answer);
  }

  LoopBeat beat_;
  std::atomic<bool> is_ready_ = false;
  std::unique_ptr<HealthServer> server_;
};

TEST_F(HealthServerTest, ReadinessIsWhatIsAsked) {
  Start();
  EXPECT_EQ(Ask(""), "NOT_SERVING");
  is_ready_ = true;
  EXPECT_TRUE(Becomes("", "SERVING"));
  is_ready_ = false;
  EXPECT_TRUE(Becomes("", "NOT_SERVING"));
}

TEST_F(HealthServerTest, AProcessThatStartsIsLive) {
  Start(/*patience=*/absl::ZeroDuration());
  EXPECT_EQ(Ask("live"), "SERVING");
}

TEST_F(HealthServerTest, ALoopThatHasStoppedIsNotLiveWhateverIsReady) {
  is_ready_ = true;
  Start(/*patience=*/absl::Milliseconds(1));
  beat_.Turn();
  EXPECT_TRUE(Becomes("live", "NOT_SERVING"));
  EXPECT_TRUE(Becomes("", "SERVING"));
}

TEST_F(HealthServerTest, OtherServicesAreUnknown) {
  Start();
  EXPECT_EQ(Ask("stagecoach.v1.CoordinatorService"), std::to_string(grpc::StatusCode::NOT_FOUND));
}

TEST_F(HealthServerTest, APortThatIsTakenIsAnError) {
  Start();
  const auto second = HealthServer::Start(server_->address(), {.loop = beat_, .is_ready = [] { return true; }});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
}

TEST(LivenessTest, EndsWhenNothingTurnsForAsLongAsThePatience) {
  Liveness liveness(absl::Seconds(30));
  EXPECT_TRUE(liveness.IsLive(0, absl::Hours(1)));  // the journal is being replayed
  EXPECT_TRUE(liveness.IsLive(7, absl::Hours(2)));
  EXPECT_TRUE(liveness.IsLive(7, absl::Hours(2) + absl::Seconds(29)));
  EXPECT_FALSE(liveness.IsLive(7, absl::Hours(2) + absl::Seconds(30)));
  EXPECT_TRUE(liveness.IsLive(8, absl::Hours(2) + absl::Seconds(31)));
}

}  // namespace
}  // namespace stagecoach
