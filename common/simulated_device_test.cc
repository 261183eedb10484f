#include "common/simulated_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace stagecoach {
namespace {

using testing::HasSubstr;

TEST(SimulatedDeviceTest, ReadsForwardBackwardInputAndBackwardWeight) {
  const absl::StatusOr<std::optional<SimulatedCosts>> costs = SimulatedCostsOf("simulated", "0.02,1e-3,0");
  ASSERT_TRUE(costs.ok()) << costs.status();
  ASSERT_TRUE(costs->has_value());
  EXPECT_EQ((*costs)->forward, 0.02);
  EXPECT_EQ((*costs)->backward_input, 0.001);
  EXPECT_EQ((*costs)->backward_weight, 0);
}

TEST(SimulatedDeviceTest, OtherDevicesHaveNoCosts) {
  const absl::StatusOr<std::optional<SimulatedCosts>> costs = SimulatedCostsOf("cpu", "");
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_FALSE(costs->has_value());
  EXPECT_THAT(SimulatedCostsOf("cpu", "1,1,1").status().ToString(),
              HasSubstr("INVALID_ARGUMENT: --simulated-block-seconds is for device simulated, and the device is cpu"));
}

TEST(SimulatedDeviceTest, NamesWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "needs --simulated-block-seconds"},  {"1", "\"1\" has 1 value;"},
      {"1,1,1,1", "\"1,1,1,1\" has 4 values;"}, {"0.1,-0.2,0.1", "\"-0.2\" is no time"},
      {"nan,1,1", "\"nan\" is no time"},        {"1,1,inf", "\"inf\" is no time"},
      {"1,3601,1", "\"3601\" is no time"},      {"1,,1", "\"\" is no time"},
      {"1,2ms,1", "\"2ms\" is no time"}};
  for (const auto& [text, message] : cases) {
    const absl::Status status = SimulatedCostsOf("simulated", text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(status.message(), HasSubstr(message)) << text;
    EXPECT_THAT(status.message(), HasSubstr("such as 0.02,0.02,0.02")) << text;
  }
}

}  // namespace
}  // namespace stagecoach
