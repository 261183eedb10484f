#include <gmock/gmock.h>

#include "client/commands/testing/command_line_test.h"
#include "client/contexts/private_file.h"
#include "client/output/json.h"

namespace stagecoach {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ConfigTest : public CommandLineTest {
 protected:
  ConfigTest() {
    EXPECT_TRUE(WritePrivateFile(directory_.Path("config.yaml"),
                                 "version: 1\ncurrent_context: a\n"
                                 "contexts: [{name: a, address: 'a:1'}, {name: b, address: 'b:1'}]\n")
                    .ok());
    UnsetVariable("STAGECOACH_ADDRESS");
  }
};

TEST_F(ConfigTest, ListsContextsAndTheBuiltInOne) {
  EXPECT_EQ(Run({"config", "get-contexts", "-o", "name"}).out, "a\nb\nlocal\n");
  EXPECT_THAT(Run({"config", "get-contexts"}).out, HasSubstr("*        a      a:1"));
  const Json json = Json::parse(Run({"config", "get-contexts", "-o", "json"}).out);
  EXPECT_EQ(json["contexts"][0]["current"], true);
  EXPECT_EQ(json["contexts"][1]["current"], false);
}

TEST_F(ConfigTest, UseContextIsRemembered) {
  EXPECT_EQ(Run({"config", "use-context", "b"}).code, 0);
  EXPECT_EQ(Json::parse(Run({"config", "view", "-o", "json"}).out)["address"], "b:1");
  EXPECT_EQ(Run({"config", "use-context", "local"}).code, 0);
  EXPECT_EQ(Json::parse(Run({"config", "view", "-o", "json"}).out)["context"], "local");
  const Result wrong = Run({"config", "use-context", "c"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("no context \"c\""));
}

TEST_F(ConfigTest, ViewSaysWhereEachValueIsFrom) {
  SetVariable("STAGECOACH_CONTEXT", "b");
  const std::string table = Run({"config", "view", "--show-origin"}).out;
  EXPECT_THAT(table, testing::ContainsRegex("context +b +STAGECOACH_CONTEXT"));
  EXPECT_THAT(table, testing::ContainsRegex("config +.*config.yaml +STAGECOACH_CONFIG"));
  const Json json = Json::parse(Run({"config", "view", "--show-origin", "--address", "c:1", "-o", "json"}).out);
  EXPECT_EQ(json["address"]["value"], "c:1");
  EXPECT_EQ(json["address"]["origin"], "--address");
}

TEST_F(ConfigTest, AContextThatIsNotThereIsTwo) {
  EXPECT_EQ(Run({"get", "jobs", "--context", "c"}).code, 2);
  EXPECT_EQ(Run({"get", "jobs", "--address", "nowhere"}).code, 2);
}

TEST_F(ConfigTest, AFileThatIsWrongIsTwoWithItsLine) {
  EXPECT_TRUE(WritePrivateFile(directory_.Path("config.yaml"),
                               "version: 1\ncontexts:\n  - {name: a, address: 'a:1', ca: /ca.pem}\n")
                  .ok());
  const Result result = Run({"get", "jobs", "-o", "json"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("config.yaml:3:"), HasSubstr("\"ca\" is not supported yet")));
  EXPECT_EQ(Json::parse(result.out)["error"]["code"], "INVALID_ARGUMENT");
}

}  // namespace
}  // namespace stagecoach
