#include "client/contexts/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "client/contexts/private_file.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {
namespace {

using testing::AllOf;
using testing::Field;
using testing::HasSubstr;

class SettingsTest : public testing::Test {
 protected:
  SettingsTest() {
    variables_["HOME"] = "/home/ada";
    variables_["STAGECOACH_CONFIG"] = path_;
    EXPECT_TRUE(WritePrivateFile(path_,
                                 "version: 1\ncurrent_context: now\ncontexts:\n"
                                 "  - {name: now, address: 'now:1', state_dir: /var/now}\n"
                                 "  - {name: other, address: 'other:1'}\n")
                    .ok());
  }
  absl::StatusOr<Settings> Resolve(const SettingFlags& flags = {}) {
    return ResolveSettings(flags, [this](const char* name) -> std::optional<std::string> {
      const auto found = variables_.find(name);
      return found == variables_.end() ? std::nullopt : std::optional(found->second);
    });
  }
  static auto Is(const std::string& value, const std::string& origin) {
    return AllOf(Field(&Setting::value, value), Field(&Setting::origin, origin));
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_.Path("config.yaml");
  std::map<std::string, std::string> variables_;
};

TEST_F(SettingsTest, TheFlagComesFirst) {
  variables_["STAGECOACH_ADDRESS"] = "env:1";
  variables_["STAGECOACH_CONTEXT"] = "other";
  EXPECT_THAT(Resolve({.context = "now", .address = "flag:1"})->address, Is("flag:1", "--address"));
  const Settings settings = *Resolve({.context = "other", .address = ""});
  EXPECT_THAT(settings.address, Is("other:1", path_));
  EXPECT_THAT(settings.context, Is("other", "--context"));
}

TEST_F(SettingsTest, ThenTheEnvironment) {
  variables_["STAGECOACH_CONTEXT"] = "other";
  EXPECT_THAT(Resolve()->context, Is("other", "STAGECOACH_CONTEXT"));
  EXPECT_THAT(Resolve()->address, Is("other:1", path_));
  variables_["STAGECOACH_ADDRESS"] = "env:1";
  EXPECT_THAT(Resolve()->address, Is("env:1", "STAGECOACH_ADDRESS"));
}

TEST_F(SettingsTest, ThenTheCurrentContext) {
  const Settings settings = *Resolve();
  EXPECT_THAT(settings.config, Is(path_, "STAGECOACH_CONFIG"));
  EXPECT_THAT(settings.context, Is("now", path_));
  EXPECT_THAT(settings.address, Is("now:1", path_));
  EXPECT_THAT(settings.state_dir, Is("/var/now", path_));
}

TEST_F(SettingsTest, ThenWhatIsBuiltIn) {
  variables_.erase("STAGECOACH_CONFIG");
  variables_["XDG_CONFIG_HOME"] = directory_.Path("empty");
  variables_["XDG_STATE_HOME"] = "relative, so ignored";
  const Settings settings = *Resolve();
  EXPECT_THAT(settings.config, Is(directory_.Path("empty") + "/stagecoach/config.yaml", "XDG_CONFIG_HOME"));
  EXPECT_THAT(settings.context, Is("local", "built-in"));
  EXPECT_THAT(settings.state_dir, Is("/home/ada/.local/state/stagecoach/local", "built-in"));
  EXPECT_THAT(settings.address, Is("unix:/home/ada/.local/state/stagecoach/local/coordinator.sock", "built-in"));
}

TEST_F(SettingsTest, AContextThatIsNotThereIsAnErrorThatNamesThoseThatAre) {
  const absl::Status status = Resolve({.context = "nwo", .address = ""}).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("\"nwo\" (--context)"), HasSubstr("local, now, other")));
}

TEST_F(SettingsTest, AnAddressThatIsNoneIsAnErrorThatSaysWhereItIsFrom) {
  EXPECT_THAT(std::string(Resolve({.context = "", .address = "host"}).status().message()), HasSubstr("--address: "));
  EXPECT_TRUE(absl::IsInvalidArgument(Resolve({.context = "", .address = "host:0"}).status()));
  variables_["STAGECOACH_ADDRESS"] = "http://host";
  EXPECT_THAT(std::string(Resolve().status().message()), HasSubstr("STAGECOACH_ADDRESS: "));
}

TEST_F(SettingsTest, CredentialsAreNotIgnoredInSilence) {
  variables_["STAGECOACH_CA"] = "/ca.pem";
  EXPECT_THAT(std::string(Resolve().status().message()), HasSubstr("STAGECOACH_CA is set"));
}

TEST_F(SettingsTest, WithoutAHomeThereIsNoFile) {
  variables_.clear();
  EXPECT_TRUE(absl::IsFailedPrecondition(Resolve().status()));
}

}  // namespace
}  // namespace stagecoach
